"""Judges of histories; DESIGN.md says what each promises. Each module has one `check`."""
