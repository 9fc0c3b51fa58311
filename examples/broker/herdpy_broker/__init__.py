"""A broker of tasks: an application on HerdPy's public driver. DESIGN.md says why it is as it is."""
