#include "model/chat/filters.h"

#include "model/chat/filter_tables.h"

namespace headrace::jinja {

Filter find_filter(std::string_view name) {
  for (const auto table :
       {text_filters(), value_filters(), sequence_filters(), selection_filters()}) {
    for (const NamedFilter& entry : table) {
      if (entry.name == name) return entry.filter;
    }
  }
  return nullptr;
}

}  // namespace headrace::jinja
