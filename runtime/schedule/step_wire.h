// Pieces of step messages that other messages carry too, as STEP_PLAN.md lays them out.
#pragma once

#include "runtime/schedule/step_plan.h"
#include "runtime/schedule/wire.h"

namespace headrace {

/// get_* throws std::runtime_error naming the field.
void put_admission(ByteWriter& writer, const Admission& admission);
Admission get_admission(ByteReader& reader);

void put_scored(ByteWriter& writer, const ScoredToken& scored);
ScoredToken get_scored(ByteReader& reader);

/// Tokens alone, as ranks that share the last stage pass them among themselves.
void encode(std::span<const ScoredToken> tokens, std::vector<std::byte>& out);
std::vector<ScoredToken> decode_scored_tokens(std::span<const std::byte> bytes);

}  // namespace headrace
