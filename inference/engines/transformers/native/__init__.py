"""The decoder of the Llama family in C, for CPUs: several times as fast as operator by operator."""
