"""The diffusion process over labels: schedule, objective, sampler, conditioning."""
