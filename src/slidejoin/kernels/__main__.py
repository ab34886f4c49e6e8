"""``python -m slidejoin.kernels``: fill the kernel cache, so that the first join need not wait."""

import sys
import time

from slidejoin.kernels import ON_DEMAND, cache_directory, ready

began = time.perf_counter()
ready()
ready(*ON_DEMAND)
sys.stdout.write(f"slidejoin: kernels ready in {time.perf_counter() - began:.1f} s ({cache_directory()})\n")
