"""Networks on graphs: sparse operators, backbones, the denoiser and the mean-field classifier."""
