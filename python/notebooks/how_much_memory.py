# %% [markdown]
# # How much memory?
#
# `curve` returns the miss ratio over cache sizes. It replays a sample of the objects, and each point has bounds.

# %%
import mayfly

requests = mayfly.generate(300_000, pattern="zipf:0.8", objects=50_000, size="lognormal:1000:1.0", seed=2)
curve = mayfly.curve(requests, "lru,sieve", points=10)
axes = curve.plot()

# %% [markdown]
# The smallest size at which LRU and SIEVE miss at most 40 % of the requests:

# %%
{
    policy: min(row["cache_size"] for row in curve if row["policy"] == policy and row["miss_ratio"] <= 0.4)
    for policy in ("lru", "sieve")
}

# %% [markdown]
# `advise` searches policy and size for a target, and replays its choice in full.

# %%
advice = mayfly.advise(requests, target_miss_ratio=0.4, policies="lru,sieve,s3fifo")
print(advice)
(advice.policy, advice.cache_size, round(advice.miss_ratio, 4))
