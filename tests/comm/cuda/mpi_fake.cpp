// What stands before MPI in these tests. It says that it takes memory of a device, which is true of
// the fake one. It ends the program where memory is given to MPI that an unfinished request already
// has. And it tells the thread sanitizer which memory MPI reads and writes, and that this goes on
// until the request is complete.
#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/fake_cuda/sanitizers.h"

namespace {

struct Access {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
  int peer = 0;
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

// Sending to several ranks from one place is fine; all else is not.
void require_free(const Access& access) {
  for (const auto& [request, other] : accesses()) {
    const bool apart =
        access.data + access.bytes <= other.data || other.data + other.bytes <= access.data;
    if (apart || (!access.writes && !other.writes && access.peer != other.peer)) continue;
    std::fprintf(stderr, "fake MPI: memory of an unfinished request is given to another\n");
    std::abort();
  }
}

void begin(const Access& access, MPI_Request request) {
  tell(access);
  accesses()[request] = access;
}

void end(MPI_Request request) {
  const auto found = accesses().find(request);
  if (found == accesses().end()) return;
  tell(found->second);
  accesses().erase(found);
}

}  // namespace

extern "C" {

int MPIX_Query_cuda_support() {
  return std::getenv("FAKE_MPI_WITHOUT_CUDA") == nullptr ? 1 : 0;
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (type != MPI_BYTE) return PMPI_Isend(data, count, type, peer, tag, comm, request);
  const Access access{static_cast<std::byte*>(const_cast<void*>(data)),
                      static_cast<std::size_t>(count), false, peer};
  require_free(access);
  const int result = PMPI_Isend(data, count, type, peer, tag, comm, request);
  begin(access, *request);
  return result;
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (type != MPI_BYTE) return PMPI_Irecv(data, count, type, peer, tag, comm, request);
  const Access access{static_cast<std::byte*>(data), static_cast<std::size_t>(count), true, peer};
  require_free(access);
  const int result = PMPI_Irecv(data, count, type, peer, tag, comm, request);
  begin(access, *request);
  return result;
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  const MPI_Request before = *request;
  const int result = PMPI_Test(request, done, status);
  if (*done != 0) end(before);
  return result;
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  const MPI_Request before = *request;
  const int result = PMPI_Wait(request, status);
  end(before);
  return result;
}

}  // extern "C"
