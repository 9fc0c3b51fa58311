"""Judges of histories that several workloads share, or that are long; DESIGN.md says what each promises."""
