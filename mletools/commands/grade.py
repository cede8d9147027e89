"""mle-grade: score each submission, and turn the verdict into a reward."""

from typing import cast

import click

from .. import cli
from ..base.columns import terminal_columns
from ..cli_options import options
from ..grading import metrics
from ..grading.one_submission import SubmissionOptions
from ..grading.options import GradingOptions
from ..records.rollout import Rollout
from ..run import Work
from ..tasks.code_metrics import CodeMetricOptions

LIST_WIDTH = 110
OTHERWISE = "that their job graded otherwise"


def _list_metrics(context: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        width = min(terminal_columns(1) or LIST_WIDTH, LIST_WIDTH)
        for metric in sorted(metrics.METRICS.values(), key=lambda each: each.name):
            click.echo(metric.described(width))
        context.exit()


USUAL = ("--reward", "--scale-score", "--human-rank", "--milestone", "--submission", "--task", "--id", "--list-metrics")


@cli.command("mle-grade", jobs=True, data=True, usual=USUAL)
@options(GradingOptions, "grading")
@options(SubmissionOptions, "one", "One submission")
@options(CodeMetricOptions, "code_metrics", "Metrics that are code")
@click.option(
    "--list-metrics",
    cls=cli.Option,
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_metrics,
    help="Print the metrics and exit.",
)
def main(run: cli.Run, grading: GradingOptions, one: SubmissionOptions, code_metrics: CodeMetricOptions) -> None:
    """Score the submissions of FILES (executed rollouts), rank them among thresholds or teams, and reward them.

    \b
    Examples:
      mle-grade executed.jsonl -o graded.jsonl
      mle-sandbox rollouts.jsonl | mle-grade --reward raw | jq .reward
      mle-grade --submission my.csv --task tasks.jsonl --id wine

    \b
    milestone       0.1 format + 0.2 valid + 0.1 median + 0.4 bronze + 0.1 silver
                    + 0.1 gold (SandMLE)
    partial-credit  the score, its sign flipped when lower is better; without one
                    -10 + 0.1 per report (RL for MLE agents)
    raw             the score, its sign flipped when lower is better; or null
    human-rank      the share of a leaderboard's teams left behind; null without a
                    valid submission (MLE-RL)
    improvement     +1 better than the state it began from, 0 not better or
                    invalid, -1 bad format (MLE-Ideator)

    An invalid submission gets a verdict with a reason. A submission or a task folder whose digest differs from the
    record is an error. Metrics that are code run in a sandbox of their own. One that fails on a submission makes it
    invalid if it scores the task's sample submission or answers, and is an error otherwise.

    partial-credit raises the reward of a valid score to the best failure's, -9.3, so that failing never pays. Where a
    metric has large errors all valid scores get the same reward, which is reported even with -q; --scale-score
    thresholds makes rewards comparable between metrics.

    Reads and writes one record at a time.
    """
    grading.check()
    one.check(run.files, grading.reward)
    one.check_file()
    from ..grading.grader import Grader, Signal
    from ..grading.one_submission import grade_submission
    from ..grading.other_verdicts import difference

    if one.submission is not None:
        run.end_dry_run()
        with code_metrics.open() as metrics_by_code:
            grade_submission(run, Grader(run.data, grading, metrics_by_code), one)
        return
    run.end_dry_run("rollout")
    signal = Signal()

    def count(rollout: Rollout) -> None:
        run.counts["valid" if rollout["grade"]["valid"] else "invalid"] += 1
        if rollout["grade"].get("metric_error"):
            run.counts["on which the metric fails"] += 1
        if otherwise := difference(rollout):
            if not run.counts[OTHERWISE]:
                trial = rollout["trial"]["name"]
                run.say(f"{trial}: {otherwise}; the grade counts (the first that differs)")
            run.counts[OTHERWISE] += 1
        if rollout["grade"]["reward"].get("clamped"):
            run.counts["rewards raised to the best failure's"] += 1
        signal.add(rollout)

    with code_metrics.open() as metrics_by_code:
        run.each(cast(Work, Grader(run.data, grading, metrics_by_code)), "rollout", processes=True, watch=count)
    for warning in signal.warnings():
        run.say(warning)
