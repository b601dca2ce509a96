from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from math_reward.adapters.trl import MathReward

rows = Dataset.from_dict({"prompt": ["What is half of 14 ?", "What is half of 16 ?"], "answer": ["7", "8"]})
trainer = GRPOTrainer(
    model="Qwen/Qwen2.5-0.5B-Instruct",
    reward_funcs=MathReward(),  # or MathReward(url="http://localhost:8000"), MathReward(answer="solution")
    args=GRPOConfig(output_dir="runs/trl", max_steps=2, logging_steps=1, log_completions=True),
    train_dataset=rows,
)
trainer.train()
