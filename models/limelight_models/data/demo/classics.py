"""Python that people write first, and that the grammar of `limelight_models.data.demo.statements` does not make."""

CLASSICS = tuple(
    source.strip() + "\n"
    for source in '''
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
---
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

print(fib(10))
---
for number in range(1, 101):
    if number % 15 == 0:
        print("FizzBuzz")
    elif number % 3 == 0:
        print("Fizz")
    elif number % 5 == 0:
        print("Buzz")
    else:
        print(number)
---
def factorial(n):
    if n == 0:
        return 1
    return n * factorial(n - 1)
---
def is_prime(n):
    if n < 2:
        return False
    for i in range(2, int(n ** 0.5) + 1):
        if n % i == 0:
            return False
    return True
---
def greet(name):
    """Say hello."""
    print(f"Hello, {name}!")
---
def is_palindrome(text):
    text = text.lower().replace(" ", "")
    return text == text[::-1]
---
def bubble_sort(items):
    for i in range(len(items)):
        for j in range(len(items) - 1 - i):
            if items[j] > items[j + 1]:
                items[j], items[j + 1] = items[j + 1], items[j]
    return items
---
def read_lines(path):
    with open(path, "r", encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip()]
---
class Dog:
    def __init__(self, name, age):
        self.name = name
        self.age = age

    def bark(self):
        print(f"{self.name} says woof")
---
def main():
    print("Hello, world!")


if __name__ == "__main__":
    main()
---
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a
---
def count_words(text):
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    return counts
---
def binary_search(items, target):
    low, high = 0, len(items) - 1
    while low <= high:
        mid = (low + high) // 2
        if items[mid] == target:
            return mid
        elif items[mid] < target:
            low = mid + 1
        else:
            high = mid - 1
    return -1
---
def quicksort(items):
    if len(items) <= 1:
        return items
    pivot, *rest = items
    return quicksort([x for x in rest if x < pivot]) + [pivot] + quicksort([x for x in rest if x >= pivot])
---
def timer(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        result = function(*args, **kwargs)
        print(f"{function.__name__}: {time.perf_counter() - start:.3f} s")
        return result
    return wrapper
---
@dataclass
class Point:
    x: float
    y: float = 0.0

    def distance(self, other: "Point") -> float:
        return math.hypot(self.x - other.x, self.y - other.y)
---
async def main():
    async with aiohttp.ClientSession() as session:
        async with session.get("https://example.com") as response:
            print(response.status)
            return await response.text()
---
def http_error(status):
    match status:
        case 400:
            return "Bad request"
        case 401 | 403:
            return "Not allowed"
        case 404:
            return "Not found"
        case _:
            return "Something is wrong"
---
def handle(command):
    match command.split():
        case ["quit"]:
            quit_game()
        case ["go", direction] if direction in exits:
            go(direction)
        case [action, *objects]:
            print(f"I cannot {action} {objects}")
---
def where(point):
    match point:
        case Point(x=0, y=0):
            print("Origin")
        case Point(x=0, y=y):
            print(f"Y={y}")
        case {"x": x, "y": y, **rest}:
            print(x, y)
        case str() | bytes() as text:
            print(text)
---
name = input("What is your name? ")
age = int(input("How old are you? "))
if age >= 18:
    print("Welcome,", name)
else:
    print("Sorry")
---
def safe_divide(a, b):
    try:
        return a / b
    except ZeroDivisionError as error:
        print("cannot divide:", error)
        return None
    finally:
        print("done")
---
def counter():
    count = 0
    def increment():
        nonlocal count
        count += 1
        return count
    return increment
---
def first[T](items: list[T], default: T | None = None) -> T | None:
    for item in items:
        return item
    return default
---
def squares(numbers: list[int]) -> list[int]:
    return [n * n for n in numbers if n % 2 == 0]
---
def flatten(items):
    for item in items:
        if isinstance(item, list):
            yield from flatten(item)
        else:
            yield item
---
while (line := input("> ")) != "quit":
    print(line.upper())
    total += len(line)
---
def run():
    try:
        work()
    except* ValueError as group:
        print(group.exceptions)
    except* (OSError, TimeoutError):
        print("failed")
---
class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    @property
    def empty(self) -> bool:
        return not self.items
'''.split("---")
)
