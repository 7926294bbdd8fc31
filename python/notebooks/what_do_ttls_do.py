# %% [markdown]
# # What do TTLs do?
#
# The same requests with the TTLs of a published mix, and without.

# %%
import mayfly

requests = mayfly.generate(300_000, pattern="zipf:0.9", objects=20_000, request_rate=100, seed=3)
tables = {
    "no TTLs": mayfly.simulate(requests, "lru,sieve", ["1%", "10%", "50%"]),
    "cluster4": mayfly.simulate(requests, "lru,sieve", ["1%", "10%", "50%"], ttl_mix="cluster4"),
}
{name: [round(ratio, 3) for ratio in table["miss_ratio"]] for name, table in tables.items()}

# %% [markdown]
# With deadlines a larger cache helps less, because entries leave before they are requested again. How many entries expired, and how many bytes
# were held by expired entries on average, says the table, too:

# %%
tables["cluster4"].to_pandas()[["policy", "size", "miss_ratio", "evictions", "expirations", "expired_bytes"]]

# %% [markdown]
# In a program, `mayfly.Cache` has deadlines per entry, and `cached` puts one around a function.

# %%
clock = mayfly.ManualClock()
cache = mayfly.Cache(1_000, ttl=60.0, clock=clock)
cache["page"] = "content"
cache.set("session", 7, ttl=5.0)
clock.advance(6.0)
("page" in cache, "session" in cache)
