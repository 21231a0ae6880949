"""Pages, pictures and tables made of what the stages wrote."""
