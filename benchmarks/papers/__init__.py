"""The papers' own experiments, made again."""
