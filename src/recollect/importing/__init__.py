"""Configuration files of other projects as studies."""
