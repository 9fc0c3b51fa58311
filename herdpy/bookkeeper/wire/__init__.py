"""BookKeeper's wire format, with no I/O in it: bytes to messages and back."""
