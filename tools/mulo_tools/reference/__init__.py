"""The reference family: procedural scenes, an exact judge, a VQ tokenizer and three GPTs that a CPU can train."""
