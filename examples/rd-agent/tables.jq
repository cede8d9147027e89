# Tables of this experiment from the rows of `mle-report --json`, as an array: arrays of cells, for @tsv.

def number: if . == null then "-" else . * 100 | round / 100 end;
def sets: map(select(.task == "all"));

# A share as % of all competitions: those of which the set has no run count as without (table 3, last row).
def of_all($rows; $set; $all):
  if . == null then . else . * ([$rows[] | select(.set == $set and .task != "all")] | length) / $all * 100 end | number;

def table3($all): . as $rows | ["set", "any medal %"], (sets[] | [.set, (.set as $set | .medal | of_all($rows; $set; $all))]);

def figure3($all; $seconds): . as $rows | sets as $sets
  | ["share of the time", "hours", $sets[].set, "perfect selection of \($sets[0].set)"],
    (range($sets[0].search.over_time | length) as $at
     | [($sets[0].search.over_time[$at].share | ., (. * $seconds / 3600 | number)),
        ($sets[] | .set as $set | .search.over_time[$at].medal | of_all($rows; $set; $all)),
        ($sets[0] | .set as $set | .search.over_time[$at].perfect_medal | of_all($rows; $set; $all))]);

def table7($all): . as $rows | ["run", "valid", "above median", "bronze", "silver", "gold", "any medal"],
  (sets[] | [.set, (.set as $set | .valid, .above_median, .bronze, .silver, .gold, .medal | of_all($rows; $set; $all))]);

def mean: if length == 0 or any(. == null) then null else add / length end;
def table8: sets as $sets
  | ["run", "research USD", "development USD", "total USD", "research tokens", "development tokens", "research s", "development s"],
    ([$sets[].search.cost | [.research, .develop] | [.[].usd, (map(.usd) | if any(. == null) then null else add end),
      (.[] | if .prompt_tokens == null then null else .prompt_tokens + .completion_tokens end), .[].seconds]]
     | . + [transpose | map(mean)] | to_entries[] | [$sets[.key].set // "mean", (.value[] | number)]);
