"""The GPU engine, on kernels built by a C++ compiler."""
