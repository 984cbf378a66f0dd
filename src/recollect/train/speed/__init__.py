"""What makes a step fast on a GPU: compilation beside training, CUDA graphs, and how many members fit into memory."""
