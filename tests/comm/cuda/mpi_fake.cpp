// What stands before MPI in these tests. It says that it takes memory of a device, which is true of
// the fake one; and it tells the thread sanitizer which memory MPI reads and writes, and that this
// goes on until the request is complete.
#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <cstddef>
#include <cstdlib>
#include <map>

#include "tests/fake_cuda/sanitizers.h"

namespace {

struct Access {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
};

std::map<MPI_Request, Access>& accesses() {
  static std::map<MPI_Request, Access> all;
  return all;
}

void tell(const Access& access) {
  if (access.writes) {
    headrace::fake_cuda::tell_written(access.data, access.bytes);
  } else {
    headrace::fake_cuda::tell_read(access.data, access.bytes);
  }
}

}  // namespace

extern "C" {

int MPIX_Query_cuda_support() {
  return std::getenv("FAKE_MPI_WITHOUT_CUDA") == nullptr ? 1 : 0;
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const Access access{static_cast<std::byte*>(const_cast<void*>(data)),
                      type == MPI_BYTE ? static_cast<std::size_t>(count) : 0, false};
  tell(access);
  const int result = PMPI_Isend(data, count, type, peer, tag, comm, request);
  accesses()[*request] = access;
  return result;
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const Access access{static_cast<std::byte*>(data),
                      type == MPI_BYTE ? static_cast<std::size_t>(count) : 0, true};
  tell(access);
  const int result = PMPI_Irecv(data, count, type, peer, tag, comm, request);
  accesses()[*request] = access;
  return result;
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  const MPI_Request before = *request;
  const int result = PMPI_Test(request, done, status);
  const auto found = accesses().find(before);
  if (*done == 0 || before == MPI_REQUEST_NULL || found == accesses().end()) return result;
  tell(found->second);
  accesses().erase(found);
  return result;
}

}  // extern "C"
