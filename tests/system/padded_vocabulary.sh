#!/bin/bash
# A model whose table has more rows (331) than its tokenizer has ids (325), as padded ones do: an id without a token
# is empty text in answers, log-probabilities and echoed prompts, and ends nothing.
. tests/system/common.sh
model=tests/data/golden/mha_biases
requests=$work/requests.jsonl
forced='"logit_bias":{"330":100},"temperature":0,"max_tokens":3,"return_token_ids":true,"logprobs":2'
cat >"$requests" <<EOF
{"custom_id":"forced","prompt":"sea",$forced}
{"custom_id":"chat","messages":[{"role":"user","content":"sea"}],${forced%,*},"logprobs":true,"top_logprobs":2}
{"custom_id":"echo","prompt":[330,5,328],"echo":true,"logprobs":1,"prompt_logprobs":1,"temperature":0,"max_tokens":1}
{"custom_id":"stop","prompt":"sea",$forced,"stop_token_ids":[330],"include_stop_str_in_output":true}
{"custom_id":"outside","prompt":[331]}
EOF

code=0
generate 2 "$work/answers.jsonl" || code=$?
[ "$code" = 3 ] || { cat "$work/answers.jsonl.log"; fail "exit code $code instead of 3"; }
expect() { sed -n "$1p" "$work/answers.jsonl" | grep -qF -- "$2" || fail "line $1 lacks $2: $(cat "$work/answers.jsonl")"; }
expect 1 '"text":"","logprobs":{"text_offset":[0,0,0]'
expect 1 '"tokens":["","",""]'
expect 1 '"token_ids":[330,330,330]'
expect 2 '"content":""'
expect 2 '"token_ids":[330,330,330]'
expect 3 '"text_offset":[0,0,1,1]'
expect 3 '"decoded_token":""'
expect 4 '"finish_reason":"stop","stop_reason":330'
expect 5 'an integer from 0 to 330'

echo '{"ids":[5,330]}' >"$work/ids.jsonl"
code=0
"$headrace" tokenize --decode --model "$model" --input "$work/ids.jsonl" >"$work/text" || code=$?
expect_code "$code" 3 "tokenize --decode"
grep -qF '"ids\" holds 330; accepted: 0 to 324' "$work/text" || fail "tokenize --decode: $(cat "$work/text")"
echo "ids without a token are empty text"
