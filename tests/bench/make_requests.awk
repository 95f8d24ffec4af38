# Requests of real words with exact prompt lengths, the same on every machine. With the vocabulary of SmolLM2 each word
# of words.txt (after a space), "The" and "." is one token, so a prompt has exactly as many tokens as it has of these.
#   awk -v count=128 -f make_requests.awk words.txt > requests.jsonl
# Variables: count (128), seed (1), shortest (32), longest (256), output_tokens (128). With fewest_output_tokens, outputs
# are skewed: from so many up to output_tokens, half of them in the lowest eighth of that range.

# Park and Miller's generator: exact in doubles, so every awk draws the same numbers.
function below(limit) {
  state = (16807 * state) % 2147483647
  return int(state / 2147483647 * limit)
}

function prompt_of(length_in_tokens, text, i) {
  text = "The"
  for (i = 2; i <= length_in_tokens; ++i) {
    if (i % 12 == 0) text = text "."
    else if (i % 12 == 1) text = text " The"
    else text = text " " words[below(num_words)]
  }
  return text
}

function output_of_request(draw) {
  if (!fewest_output_tokens) return output_tokens
  draw = below(10000) / 10000
  return fewest_output_tokens + int((output_tokens + 1 - fewest_output_tokens) * draw * draw * draw)
}

{ for (i = 1; i <= NF; ++i) words[num_words++] = $i }

END {
  if (!count) count = 128
  if (!shortest) shortest = 32
  if (!longest) longest = 256
  if (!output_tokens) output_tokens = 128
  state = seed ? seed : 1
  for (i = 0; i < 10; ++i) below(1)  # small seeds start with small numbers
  for (request = 1; request <= count; ++request) {
    printf "{\"custom_id\":\"bench-%06d\",\"prompt\":\"%s\",\"temperature\":0,\"max_tokens\":%d,\"ignore_eos\":true}\n",
           request, prompt_of(shortest + below(longest - shortest + 1)), output_of_request()
  }
}
