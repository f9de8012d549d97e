"""The checks of tools/house, a file each."""
