"""The documentation, held true: its tutorial is played, its blocks are run, its tables are compared with the code.

A comment above a block, which readers do not see, says how the block is treated; see `test_blocks`.
"""
