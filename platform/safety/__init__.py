"""Safety policies as operators edit them; the checks themselves run in the worker (`inference.safety`)."""
