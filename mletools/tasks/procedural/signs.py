"""What the factors of a medium are called by those who look at the files: phrases for the sentence about signs."""

from collections.abc import Iterable

from .scenario import Scenario

# How often a series swings, by its step and the steps of a season; else regularly.
CYCLES = {("hour", 24): "daily", ("day", 7): "weekly", ("month", 12): "yearly"}
# Factor: more of it, less of it. The names in braces are the scenario's, see `_words`.
PHRASES = {
    "image_stripe_frequency": ("more closely spaced {stripes}", "more widely spaced {stripes}"),
    "image_stripe_contrast": ("more distinct {stripes}", "less distinct {stripes}"),
    "image_spot_count": ("more {spots}", "fewer {spots}"),
    "image_spot_radius": ("larger {spots}", "smaller {spots}"),
    "image_grain": ("a coarser grain", "a smoother grain"),
    "image_mirror_symmetry": ("more symmetry between left and right", "less symmetry between left and right"),
    "audio_pitch": ("a higher pitch", "a lower pitch"),
    "audio_glide": ("a rising pitch", "a falling pitch"),
    "audio_tremolo_rate": ("faster beats", "slower beats"),
    "audio_click_count": ("more clicks", "fewer clicks"),
    "audio_noise_share": ("more noise", "less noise"),
    "audio_overtones": ("stronger overtones", "weaker overtones"),
    "graph_triangles": ("more triangles of {edges}", "fewer triangles of {edges}"),
    "graph_most_links": ("more {edges} at the busiest {node}", "fewer {edges} at the busiest {node}"),
    "graph_crossing_links": ("more {edges} between the two halves", "fewer {edges} between the two halves"),
    "graph_tail_length": ("a longer dead end", "a shorter dead end"),
    "graph_crossing_weight": ("a larger {weight} between the two halves", "a smaller {weight} between the two halves"),
    "graph_busy_weight": ("a larger {weight} at busy {nodes}", "a larger {weight} at quiet {nodes}"),
    "series_trend": ("a rising trend", "a falling trend"),
    "series_season_size": ("wider {cycle} swings", "narrower {cycle} swings"),
    "series_shift_size": ("a larger jump of the level", "a smaller jump of the level"),
    "series_scatter": ("more scatter", "less scatter"),
    "series_memory": ("slow returns to the usual level", "quick returns to the usual level"),
    "series_spike_count": ("more spikes", "fewer spikes"),
    "series_late_scatter": ("scatter that grows", "scatter that shrinks"),
    "text_praise_share": ("praise", "complaints"),
    "text_doubt_share": ("doubtful wording", "firm wording"),
    "text_gravity": ("words such as severe", "words such as negligible"),
    "text_urgency": ("a call to act soon", "no haste"),
}


def phrases(factors: Iterable[tuple[str, bool]], scenario: Scenario) -> list[str]:
    """The phrases of those factors that have one, each once; the flag says whether more of it is meant."""
    words = _words(scenario)
    named = [PHRASES[name][0 if more else 1].format(**words) for name, more in factors if name in PHRASES]
    return list(dict.fromkeys(named))


def _words(scenario: Scenario) -> dict[str, str]:
    """What the scenario calls the spots and stripes of its pictures, the parts of its networks, the cycle of its series."""
    image, graph, series = (scenario["image"], scenario["graph"], scenario["series"])
    return {
        "spots": image["spots"],
        "stripes": image["stripes"],
        "node": graph["node"],
        "nodes": plural(graph["node"]),
        "edges": plural(graph["edge"]),
        "weight": graph["weight"]["meaning"],
        "cycle": CYCLES.get((series["step"], series["season"]), "regular"),
    }


def plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
