"""The studies, one short data file each. A file runs as a script too, with the options of ``raypfrl sweep``."""
