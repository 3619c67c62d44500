"""The problems, in mathematics and with no algorithm: losses, kernels, the offset, the linear and the kernel SVM."""
