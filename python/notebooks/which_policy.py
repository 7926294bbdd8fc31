# %% [markdown]
# # Which policy for my trace?
#
# `simulate` replays a trace through caches of several policies and sizes. A trace is a file, a URL, an array of keys or a table; here it
# is generated: popular objects, and scans of objects that are requested once.

# %%
import mayfly

requests = mayfly.generate(300_000, pattern="zipf:0.9@80+scan:1000@20", objects=20_000, seed=1)
table = mayfly.simulate(requests, ["fifo", "lru", "clock", "sieve", "s3fifo", "w-tinylfu"], ["1%", "10%", "30%"])
table

# %% [markdown]
# The best policy of each size. Scans evict what LRU has just kept; policies that let new objects prove themselves first lose less.

# %%
best = {}
for row in table:
    best[row["size"]] = min(best.get(row["size"], row), row, key=lambda row: row["miss_ratio"])
{size: (row["policy"], round(row["miss_ratio"], 4)) for size, row in best.items()}

# %%
axes = table.plot()

# %% [markdown]
# A policy of one's own is a class. It runs in the same host, with the same counters, about forty times slower.


# %%
class MostRecent:
    """Evicts the entry that was inserted last."""

    def __init__(self, capacity):
        self.stack = []

    def on_insert(self, entry, weight):
        self.stack.append(entry)

    def evict(self):
        return self.stack.pop()


few = {name: column[:50_000] for name, column in requests.items()}
mayfly.simulate(few, [MostRecent, "fifo", "lru"], "10%").to_pandas()[["policy", "miss_ratio", "evictions"]]
