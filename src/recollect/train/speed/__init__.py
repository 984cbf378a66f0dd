"""What makes a step fast on a GPU: compilation, CUDA graphs, and how many members fit into memory."""
