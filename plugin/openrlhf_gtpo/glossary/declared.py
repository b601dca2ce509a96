"""The one declaration of the names that are logged.

A metric of ours cannot be logged without an entry here: tests hold the names in the sources, what the functions that
make them return, and every line of a real run against it.
"""

from openrlhf_gtpo.glossary.metric import Entry, Metric

__all__ = ["GLOSSARY", "describe"]

OF = {"": "all responses", "correct_": "correct responses", "wrong_": "wrong responses"}
"""Classes; a class without tokens in a step has no values there."""
QUANTILES = {
    "mean": "mean",
    "q10": "value that a tenth is below",
    "q50": "median",
    "q90": "value that nine tenths are below",
}
EXTREMES = {"mean": "mean", "std": "standard deviation", "min": "lowest", "max": "highest"}
COUNTERS = {
    "requests": ("requests", "HTTP requests sent."),
    "items": ("responses", "Rewards delivered, those of evaluations included."),
    "retries": ("responses", "Responses sent once more."),
    "failures": ("responses", "Rewards that were given up."),
    "failovers": ("responses", "Retries that went to another URL than the one that failed."),
    "seconds_waited": ("seconds", "From the question to the reward or the error, summed over responses."),
}
TOKENS = "the tokens of {of} of a step"
RESPONSES = "the step's responses"
UPDATES = "the step's updates, weighted by responses"
UPDATES_BY_TOKEN = "the step's updates, weighted by tokens"
LEARNING = "the step's tokens whose advantage is not 0"
LAST_UPDATE = "the step's last update"
STEP = "the step"
SINCE_START = "the run so far, since it was started or resumed"
GUIDE_TOKENS = "the tokens of the guide's responses of a step"
EVALUATION = "the data source's prompts, in one evaluation during training"

OURS = "plugin/openrlhf_gtpo/"
HOST = "openrlhf/trainer/"


def _timing(name: str, text: str) -> Metric:
    return Metric(f"timing/{name}", "seconds", STEP, text, HOST + "ppo_trainer.py", repeats=False)


def _guide(name: str, unit: str, text: str, repeats: bool = True) -> Metric:
    return Metric(f"guide/{name}", unit, STEP, text, OURS + "guide/groups.py", "with --guide.*", repeats)


GLOSSARY: tuple[Metric, ...] = (
    # What the policy does.
    Metric(
        "rollout/reward_mean",
        "reward",
        RESPONSES,
        "Mean reward, with length penalties.",
        HOST + "ppo_trainer.py",
    ),
    Metric("rollout/reward_std", "reward", RESPONSES, "Standard deviation of the reward.", HOST + "ppo_trainer.py"),
    Metric(
        "rollout/pass_rate",
        "share",
        RESPONSES,
        "Share of correct responses, without any penalty.",
        OURS + "controller/metrics.py",
        "where scores are binary",
    ),
    Metric("rollout/response_length_mean", "tokens", RESPONSES, "Mean length.", HOST + "ppo_trainer.py"),
    Metric(
        "rollout/truncated_rate",
        "share",
        RESPONSES,
        "Share that reached --rollout.max_new_tokens.",
        HOST + "ppo_trainer.py",
    ),
    Metric("rollout/num_samples", "responses", STEP, "Responses that the step learns from.", HOST + "ppo_trainer.py"),
    Metric(
        "rollout/prompts_consumed",
        "prompts",
        "the run so far, those before a resumption included",
        "Prompts drawn, those that dynamic filtering threw away included.",
        OURS + "controller/generator.py",
        "in synchronous training",
    ),
    Metric(
        "response_length/{of}mean",
        "tokens",
        "{of} of a step",
        "Mean length.",
        OURS + "controller/metrics.py",
        variants={"of": OF},
    ),
    # Entropy and what GTPO and GRPO-S make of it.
    Metric(
        "entropy/{of}token_{statistic}",
        "nats",
        TOKENS,
        "Entropy of the distribution that a token was sampled from: {statistic}.",
        OURS + "controller/metrics.py",
        variants={"of": OF, "statistic": QUANTILES},
    ),
    Metric(
        "entropy/{of}response_mean",
        "nats",
        "{of} of a step",
        "Mean of each response's mean entropy: a short response counts as much as a long one.",
        OURS + "controller/metrics.py",
        variants={"of": OF},
    ),
    Metric(
        "shaped_reward/{of}{statistic}",
        "reward",
        TOKENS,
        "Reward shaped by entropy (Eq. 3, 5 and 9), with length penalties, before it is normalised: {statistic}.",
        OURS + "controller/metrics.py",
        "with gtpo and grpo_s",
        variants={"of": OF, "statistic": EXTREMES},
    ),
    Metric(
        "advantage/{of}{statistic}",
        "standard deviations",
        TOKENS,
        "Advantage, which weighs a token's gradient: {statistic}.",
        OURS + "controller/metrics.py",
        variants={"of": OF, "statistic": EXTREMES},
    ),
    *(
        Metric(
            f"advantage/{verdict}_{sign}_share",
            "share",
            f"the tokens of {verdict} responses of a step",
            f"Tokens with an advantage {beyond} 0: it makes them {more}, although their response is {verdict}.",
            OURS + "controller/metrics.py",
            "where scores are binary",
        )
        for verdict, sign, beyond, more in (
            ("correct", "negative", "below", "less likely"),
            ("wrong", "positive", "above", "likelier"),
        )
    ),
    Metric(
        "groups/all_{verdict}_share",
        "share",
        "the step's groups",
        "Groups whose responses are all {verdict}.",
        OURS + "controller/metrics.py",
        "where scores are binary",
        variants={"verdict": {"correct": "correct", "wrong": "wrong"}},
    ),
    Metric(
        "groups/uninformative_share",
        "share",
        "the step's groups",
        "Groups that teach nothing: all responses correct, or all wrong.",
        OURS + "controller/metrics.py",
        "where scores are binary",
    ),
    Metric(
        "shaping/weight_entropy_correlation",
        "",
        "the step's tokens",
        "Correlation of the shares that --shaping.weights gives with those that the entropies would give.",
        OURS + "algorithms/estimators.py",
        "with --shaping.weights shuffled, surprisal or inverse, where both vary",
    ),
    Metric(
        "entropy_advantage/bonus_mean",
        "standard deviations",
        LEARNING,
        "What entropy adds to the advantage.",
        OURS + "algorithms/entropy_advantage.py",
        "with entropy_advantage",
    ),
    Metric(
        "entropy_advantage/bounded_share",
        "share",
        LEARNING,
        "Tokens whose bonus is at its bound, the advantage's size by kappa.",
        OURS + "algorithms/entropy_advantage.py",
        "with entropy_advantage",
    ),
    Metric(
        "edge/divisor_{end}",
        "",
        RESPONSES,
        "What advantages are divided by, the response's mean entropy relative to its group's: {end}.",
        OURS + "algorithms/edge.py",
        "with edge",
        variants={"end": {"min": "lowest", "max": "highest"}},
    ),
    Metric(
        "covariance/logprob_mean",
        "nats",
        "the step's tokens",
        "Mean log-probability, from which the covariance of a token deviates.",
        OURS + "algorithms/covariance.py",
        "with clip_cov and kl_cov",
    ),
    Metric(
        "covariance/advantage_mean",
        "standard deviations",
        "the step's tokens",
        "Mean advantage, from which the covariance of a token deviates.",
        OURS + "algorithms/covariance.py",
        "with clip_cov and kl_cov",
    ),
    Metric(
        "clip_cov/chance",
        "share",
        "the step's tokens between the bounds",
        "Chance to be cut, so that --clip_cov.share of all tokens is; 0 where no token is between the bounds.",
        OURS + "algorithms/covariance.py",
        "with clip_cov",
    ),
    Metric(
        "clip_cov/between_share",
        "share",
        UPDATES_BY_TOKEN,
        "Tokens whose covariance is between the bounds and that PPO's clip leaves alone.",
        OURS + "policy/covariance_loss.py",
        "with clip_cov",
    ),
    Metric(
        "clip_cov/cut_share",
        "share",
        UPDATES_BY_TOKEN,
        "Tokens whose gradient was cut.",
        OURS + "policy/covariance_loss.py",
        "with clip_cov",
    ),
    Metric(
        "kl_cov/threshold",
        "",
        "the step's tokens",
        "Lowest covariance that is penalised.",
        OURS + "algorithms/covariance.py",
        "with kl_cov",
    ),
    Metric(
        "kl_cov/penalised_share",
        "share",
        UPDATES_BY_TOKEN,
        "Tokens that have the penalty.",
        OURS + "policy/covariance_loss.py",
        "with kl_cov",
    ),
    Metric(
        "kl_cov/penalty",
        "nats",
        UPDATES_BY_TOKEN,
        "The penalty in the loss, with its weight; 0 in a batch's first update.",
        OURS + "policy/covariance_loss.py",
        "with kl_cov",
    ),
    Metric(
        "shaping/seconds",
        "seconds",
        STEP,
        "Time that advantages take.",
        OURS + "controller/experience.py",
        repeats=False,
    ),
    Metric(
        "forking/kept_share",
        "share",
        "the step's tokens",
        "Tokens that learn.",
        OURS + "controller/experience.py",
        "with --shaping.top_entropy_share below 1",
    ),
    Metric(
        "forking/entropy_threshold",
        "nats",
        "the step's tokens that learn",
        "The lowest entropy among them.",
        OURS + "controller/experience.py",
        "with --shaping.top_entropy_share below 1",
    ),
    Metric(
        "overlong/punished_share",
        "share",
        RESPONSES,
        "Responses whose reward is lower for their length.",
        OURS + "controller/experience.py",
        "with --shaping.grop",
    ),
    Metric(
        "overlong/punishment_mean",
        "reward",
        RESPONSES,
        "What their length adds to rewards, never above 0.",
        OURS + "controller/experience.py",
        "with --shaping.grop",
    ),
    # Rewards.
    *(
        Metric(
            f"reward/{counter}_total",
            unit,
            SINCE_START,
            text,
            OURS + "controller/trainers.py",
            "with a reward URL or the built-in service",
            repeats=False,
        )
        for counter, (unit, text) in COUNTERS.items()
    ),
    Metric(
        "reward/failed_responses",
        "responses",
        STEP,
        "Responses without a reward; their groups are dropped, never counted as wrong.",
        OURS + "controller/generator.py",
        "in synchronous training",
    ),
    Metric(
        "reward/dropped_groups",
        "groups",
        STEP,
        "Groups left out: a reward failed, or they did not fill --train.batch_size.",
        OURS + "controller/generator.py",
        "in synchronous training",
    ),
    Metric(
        "reward/wait_seconds_{statistic}",
        "seconds",
        RESPONSES,
        "From a response's last token to its reward: {statistic}.",
        OURS + "controller/generator.py",
        "in synchronous training",
        repeats=False,
        variants={"statistic": {"mean": "mean", "max": "longest"}},
    ),
    Metric(
        "reward/wait_after_generation",
        "seconds",
        STEP,
        "From the batch's last token to its last reward: what grading adds to the step.",
        OURS + "controller/generator.py",
        "in synchronous training",
        repeats=False,
    ),
    # The update.
    Metric("policy_loss", "", UPDATES_BY_TOKEN, "Clipped objective, negated.", HOST + "ray/ppo_actor.py"),
    Metric(
        "actor_grad_norm",
        "",
        LAST_UPDATE,
        "Norm of the policy's gradient before clipping; 0 where all groups in it were uninformative.",
        HOST + "ray/ppo_actor.py",
    ),
    Metric("actor_lr", "", LAST_UPDATE, "Learning rate.", HOST + "ray/ppo_actor.py"),
    Metric(
        "ppo_clip_ratio",
        "share",
        UPDATES_BY_TOKEN,
        "Tokens whose ratio was clipped; with grpo_s, responses.",
        HOST + "ray/ppo_actor.py",
    ),
    Metric(
        "ppo_kl",
        "nats",
        UPDATES_BY_TOKEN,
        "How far the policy has moved from the one that the rollouts are of: mean of the old log-probability minus "
        "the new.",
        HOST + "ray/ppo_actor.py",
    ),
    Metric(
        "entropy_loss",
        "nats",
        UPDATES_BY_TOKEN,
        "Entropy of the policy in training.",
        HOST + "ray/ppo_actor.py",
        "with --actor.entropy_coef or --actor.entropy_target",
    ),
    Metric(
        "entropy_bonus/coefficient",
        "",
        UPDATES_BY_TOKEN,
        "Weight of the entropy in the loss; 0 after an update whose mean entropy was above the target.",
        OURS + "policy/entropy_bonus.py",
        "with --actor.entropy_target",
    ),
    Metric(
        "mismatch/logprob_gap",
        "nats",
        "the step's tokens",
        "Difference between vLLM's log-probability of a sampled token and the policy actor's, without sign: rounding, "
        "unless weights did not arrive.",
        OURS + "controller/metrics.py",
    ),
    Metric(
        "vllm_kl",
        "nats",
        UPDATES_BY_TOKEN,
        "vLLM's log-probability of a token minus the policy actor's.",
        HOST + "ray/ppo_actor.py",
        "with OpenRLHF's importance correction",
    ),
    Metric(
        "is_filter_ratio",
        "share",
        UPDATES_BY_TOKEN,
        "Tokens, or with the level seq responses, that the importance correction clipped or left out.",
        HOST + "ray/ppo_actor.py",
        "with OpenRLHF's importance correction",
    ),
    *(
        Metric(name, unit, over, text, HOST + "ray/ppo_critic.py", "with --algo.advantage.estimator gae")
        for name, unit, over, text in (
            ("critic_loss", "", UPDATES, "The critic's loss."),
            ("values", "reward", UPDATES, "The critic's values."),
            ("critic_lr", "", UPDATES, "The critic's learning rate."),
            ("critic_grad_norm", "", UPDATES, "Norm of the critic's gradient."),
        )
    ),
    # OpenRLHF's means over its micro-batches, by the names of its fields.
    Metric(
        "reward",
        "reward",
        UPDATES,
        "Reward, with length penalties.",
        HOST + "ppo_utils/samples_generator.py",
    ),
    Metric("score", "", UPDATES, "Verified correctness, 1 or 0.", HOST + "ppo_utils/samples_generator.py"),
    Metric(
        "return",
        "reward",
        UPDATES,
        "With gtpo and grpo_s a response's mean shaped reward; else OpenRLHF's return.",
        OURS + "controller/experience.py",
    ),
    Metric(
        "group_reward_std",
        "reward",
        UPDATES,
        "Standard deviation of the reward in a response's group.",
        OURS + "controller/experience.py",
        "with groups of more than one response",
    ),
    Metric("kl", "nats", UPDATES, "Policy against the reference model.", HOST + "ppo_utils/experience_maker.py"),
    Metric(
        "logprobs_diff",
        "nats",
        UPDATES,
        "Policy's log-probability minus the reference model's.",
        HOST + "ppo_utils/experience_maker.py",
    ),
    Metric("response_length", "tokens", UPDATES, "Length of a response.", HOST + "ppo_utils/experience.py"),
    Metric("total_length", "tokens", UPDATES, "Length of prompt and response.", HOST + "ppo_utils/experience.py"),
    Metric("truncated", "share", UPDATES, "As rollout/truncated_rate.", HOST + "ppo_utils/experience.py"),
    Metric(
        "response_clip_ratio",
        "share",
        UPDATES,
        "Responses that filled --data.max_len with their prompt.",
        HOST + "ppo_utils/samples_generator.py",
    ),
    Metric(
        "dynamic_filtering_pass_rate",
        "responses a hundred prompts",
        "the prompts drawn for the step",
        "A hundred times the responses that dynamic filtering kept, by the prompts drawn.",
        HOST + "ppo_trainer.py",
        "with --algo.dynamic_filtering_enable",
    ),
    Metric(
        "verdict_{verdict}",
        "share",
        UPDATES,
        "Responses with the verdict {verdict}.",
        "reward_server/math_reward/http/schemas.py",
        "where the reward URL is our service's /get_reward",
    ),
    # Time.
    _timing("generation", "Generation, and rewards, which are asked for meanwhile."),
    _timing("make_experience", "Log-probabilities and advantages."),
    _timing("ppo_train", "Updates."),
    _timing("broadcast", "Weights to vLLM."),
    _timing("step_total", "The step; in synchronous training the sum of the other four."),
    # A guide.
    _guide("asked_groups", "groups", "Groups that the guide was asked for."),
    _guide("responses", "responses", "The guide's responses."),
    _guide("pass_rate", "share", "Correct ones among the guide's responses."),
    _guide("zero_reward_groups", "groups", "Groups in which the policy was always wrong."),
    _guide("rescued_groups", "groups", "Of these, groups that learn because the guide was right."),
    _guide("rescued_share", "share", "Rescued groups among those in which the policy was always wrong."),
    _guide("unsolved_groups", "groups", "Groups in which the guide was always wrong too."),
    _guide("failed_groups", "groups", "Groups whose guided responses lost a reward."),
    _guide("fillers", "responses", "Responses without weight that fill the last update."),
    _guide("wait_seconds", "seconds", "Wait for the guide once the policy's responses were there.", repeats=False),
    Metric(
        "guide/{mark}",
        "",
        UPDATES,
        "{mark}.",
        OURS + "guide/groups.py",
        "with --guide.*",
        variants={
            "mark": {
                "share": "Share of the guide's responses in the updates",
                "second_batch": "Share of responses of the second batch in the updates",
                "filler": "Share of fillers in the updates",
                "group": "Mean of the groups' numbers, a mark of ours without a meaning as a mean",
            }
        },
    ),
    Metric(
        "guide/ratio_{statistic}",
        "",
        GUIDE_TOKENS,
        "The policy's probability by the guide's: {statistic}.",
        OURS + "algorithms/mixed_policy.py",
        "with --guide.*",
        variants={"statistic": QUANTILES},
    ),
    Metric(
        "guide/clip_share",
        "share",
        GUIDE_TOKENS,
        "Ratios clipped.",
        OURS + "algorithms/mixed_policy.py",
        "with --guide.*",
    ),
    Metric(
        "guide/kl",
        "nats",
        GUIDE_TOKENS,
        "Guide against policy, Schulman's k3.",
        OURS + "algorithms/mixed_policy.py",
        "with --guide.*",
    ),
    Metric(
        "guide/logprob_mean",
        "nats",
        GUIDE_TOKENS,
        "The guide's own log-probability.",
        OURS + "algorithms/mixed_policy.py",
        "with --guide.*",
    ),
    # Evaluation during training, in evaluations.jsonl.
    Metric(
        "eval_{source}_pass{k}",
        "share of prompts",
        EVALUATION,
        "Unbiased Pass@k: a prompt counts where one of k samples is correct.",
        OURS + "controller/during_training.py",
        "with --eval.*",
    ),
    Metric(
        "eval_{source}_pass{k}_{end}",
        "share of prompts",
        EVALUATION,
        "The {end} of Pass@k's 95 % interval over prompts.",
        OURS + "controller/during_training.py",
        "with --eval.*",
        variants={"end": {"low": "lower end", "high": "upper end"}},
    ),
    Metric(
        "eval_{source}_entropy_{unit}_mean",
        "nats",
        EVALUATION,
        "Mean entropy over {unit}.",
        OURS + "controller/during_training.py",
        "with --eval.*",
        variants={"unit": {"token": "tokens", "response": "responses, of each one's mean"}},
    ),
    Metric(
        "eval_{source}_response_length_mean",
        "tokens",
        EVALUATION,
        "Mean length.",
        HOST + "ppo_trainer.py",
        "with --eval.*",
    ),
    Metric(
        "eval_{source}_truncated_rate",
        "share of responses",
        EVALUATION,
        "Responses that reached the limit of tokens.",
        HOST + "ppo_trainer.py",
        "with --eval.*",
    ),
    Metric(
        "eval_response_length_mean",
        "tokens",
        "an evaluation's responses",
        "Mean length.",
        HOST + "ppo_trainer.py",
        "with --eval.*",
    ),
    Metric(
        "eval_truncated_rate",
        "share of responses",
        "an evaluation's responses",
        "Responses that reached the limit of tokens.",
        HOST + "ppo_trainer.py",
        "with --eval.*",
    ),
    Metric(
        "eval_num_samples",
        "responses",
        "an evaluation",
        "Responses that it generated.",
        HOST + "ppo_trainer.py",
        "with --eval.*",
    ),
)


def describe(name: str) -> Entry | None:
    """What a logged name says; None where it is declared nowhere, as with a reward's extra_logs."""
    return next((entry for metric in GLOSSARY if (entry := metric.entry_of(name))), None)
