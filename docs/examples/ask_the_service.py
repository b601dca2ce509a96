from math_reward.client import Client

with Client("http://localhost:8000") as client:
    result = client.grade(r"Half of it: \boxed{\frac{1}{2}}", "0.5", prompt="What is half of 1?")
    print(result.verdict, result.reward)  # correct 1.0

    rows = ({"completion": rf"\boxed{{{i}}}", "reference": "7"} for i in range(1000))
    print(sum(result.correct for result in client.grade_many(rows)))  # 1
