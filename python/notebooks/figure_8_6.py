# %% [markdown]
# # A figure of miss ratio reductions in ten lines
#
# Figure 8.6 of Yang (*Designing efficient and scalable key-value cache management systems*, Carnegie Mellon University 2024) shows, for each
# policy, the distribution of the reduction of the miss ratio against FIFO over many traces, at a large and at a small size. Here the traces are
# generated; with a list of files, the same lines draw it of those.

# %%
import matplotlib.pyplot as plt

import mayfly

policies = ["lru", "clock", "sieve", "s3fifo", "lirs", "arc", "w-tinylfu"]
traces = [mayfly.generate(60_000, pattern=f"zipf:{alpha}@9+scan:500@1", objects=5_000, seed=seed) for seed, alpha in enumerate((0.6, 0.8, 1.0, 1.2))]
figure, both = plt.subplots(1, 2, sharey=True, figsize=(7, 2.5))
for axes, size in zip(both, ("10%", "1%")):
    tables = [mayfly.simulate(trace, ["fifo", *policies], size) for trace in traces]
    axes.boxplot([[1 - table["misses"][at] / table["misses"][0] for table in tables] for at in range(1, len(policies) + 1)])
    axes.set_xticks(range(1, len(policies) + 1), policies, rotation=45)
    axes.set_title(f"{size} of the objects")
both[0].set_ylabel("miss reduction from FIFO")
