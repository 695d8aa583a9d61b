"""Print the primes below 50, and write them to primes.txt, one a line."""

from pathlib import Path

primes = [n for n in range(2, 50) if all(n % d for d in range(2, n))]
print(*primes)
Path("primes.txt").write_text("\n".join(map(str, primes)) + "\n")
