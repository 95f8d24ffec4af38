#include "comm/communicator.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

#include "comm/check.h"

namespace headrace {

Communicator Communicator::duplicate(MPI_Comm parent) {
  MPI_Comm comm = MPI_COMM_NULL;
  HR_MPI(MPI_Comm_dup(parent, &comm));
  HR_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  return Communicator(comm);
}

Communicator Communicator::reordered(const Communicator& parent, const std::vector<int>& order) {
  const auto own = std::find(order.begin(), order.end(), parent.rank());
  MPI_Comm comm = MPI_COMM_NULL;
  HR_MPI(MPI_Comm_split(parent.get(), 0, static_cast<int>(own - order.begin()), &comm));
  HR_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  return Communicator(comm);
}

Communicator Communicator::split(const Communicator& parent, int group) {
  MPI_Comm comm = MPI_COMM_NULL;
  HR_MPI(MPI_Comm_split(parent.get(), group, parent.rank(), &comm));
  HR_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  return Communicator(comm);
}

Communicator Communicator::shared_memory(MPI_Comm parent) {
  MPI_Comm comm = MPI_COMM_NULL;
  HR_MPI(MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
  HR_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  return Communicator(comm);
}

bool Communicator::shares_memory() const {
  return min(shared_memory(comm_).size() == size() ? 1 : 0) == 1;
}

Communicator Communicator::subset(const Communicator& parent, const std::vector<int>& ranks) {
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  HR_MPI(MPI_Comm_group(parent.get(), &all));
  HR_MPI(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some));
  HR_MPI(MPI_Comm_create_group(parent.get(), some, /*tag=*/0, &comm));
  HR_MPI(MPI_Group_free(&some));
  HR_MPI(MPI_Group_free(&all));
  HR_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  return Communicator(comm);
}

Communicator::~Communicator() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

Communicator::Communicator(Communicator&& other) noexcept
    : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(comm_, other.comm_);
  return *this;
}

int Communicator::rank() const {
  int rank = 0;
  HR_MPI(MPI_Comm_rank(comm_, &rank));
  return rank;
}

int Communicator::size() const {
  int size = 0;
  HR_MPI(MPI_Comm_size(comm_, &size));
  return size;
}

void Communicator::barrier() const {
  HR_MPI(MPI_Barrier(comm_));
}

std::int64_t Communicator::min(std::int64_t value) const {
  std::int64_t smallest = 0;
  HR_MPI(MPI_Allreduce(&value, &smallest, 1, MPI_INT64_T, MPI_MIN, comm_));
  return smallest;
}

std::vector<std::int64_t> Communicator::all_gather(std::int64_t value) const {
  std::vector<std::int64_t> values(static_cast<std::size_t>(size()));
  HR_MPI(MPI_Allgather(&value, 1, MPI_INT64_T, values.data(), 1, MPI_INT64_T, comm_));
  return values;
}

void Communicator::broadcast(std::span<std::byte> bytes, int root) const {
  HR_MPI(MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, root, comm_));
}

std::string Communicator::broadcast(const std::string& text, int root) const {
  auto length = static_cast<std::int64_t>(text.size());
  HR_MPI(MPI_Bcast(&length, 1, MPI_INT64_T, root, comm_));
  std::string result = text;
  result.resize(static_cast<std::size_t>(length));
  HR_MPI(MPI_Bcast(result.data(), static_cast<int>(length), MPI_CHAR, root, comm_));
  return result;
}

std::vector<std::string> Communicator::gather(const std::string& text, int root) const {
  const int length = static_cast<int>(text.size());
  const bool is_root = rank() == root;
  std::vector<int> lengths(is_root ? static_cast<std::size_t>(size()) : 0);
  HR_MPI(MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, root, comm_));
  std::vector<int> starts(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), 0);
  std::string all;
  if (is_root) {
    all.resize(static_cast<std::size_t>(starts.back()) + static_cast<std::size_t>(lengths.back()));
  }
  HR_MPI(MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(),
                     MPI_CHAR, root, comm_));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    texts.push_back(
        all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

}  // namespace headrace
