// JSON as the values of a template.
#pragma once

#include <nlohmann/json.hpp>

#include "model/chat/value.h"

namespace headrace::jinja {

/// RenderError for JSON nested too deeply.
Value to_value(const nlohmann::ordered_json& json);

}  // namespace headrace::jinja
