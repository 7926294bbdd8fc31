# %% [markdown]
# # A figure of miss ratio reductions in ten lines
#
# Figure 8.6 of Yang (*Designing efficient and scalable key-value cache management systems*, Carnegie Mellon University 2024) shows, for each
# policy, percentiles of the reduction of the miss ratio against FIFO over many traces, at a large and at a small size. Here, a box is from P25 to
# P75, its whiskers from P10 to P90, with a line at the median and a triangle at the mean. The traces are the files of the folder that the variable
# `MAYFLY_TRACES` of the environment names; without it, some are generated, which show the form of the figure and not its values.

# %%
import glob, os, matplotlib.pyplot as plt, mayfly  # noqa: E401

policies = ["s3fifo", "s3fifo-w", "sieve", "arc", "twoq", "lirs", "w-tinylfu", "lru", "clock"]
traces = glob.glob(os.path.join(os.environ.get("MAYFLY_TRACES", "no folder"), "*.zst"))
traces = traces or [mayfly.generate(40_000, pattern=f"zipf:0.{seed}@9+scan:500@1", objects=5_000, seed=seed) for seed in range(3, 10)]
figure, both = plt.subplots(1, 2, sharey=True, figsize=(7, 3), layout="constrained")
for axes, size in zip(both, ("10%", "1%")):
    ratios = [mayfly.simulate(trace, ["fifo", *policies], size, ignore_size=True)["miss_ratio"] for trace in traces]
    axes.boxplot([[1 - row[at] / row[0] for row in ratios] for at in range(1, len(policies) + 1)], whis=(10, 90), showmeans=True, showfliers=False)
    axes.set_xticks(range(1, len(policies) + 1), policies, rotation=45, ha="right")
    axes.set(title=f"cache of {size} of the objects", ylabel="miss reduction from FIFO")
