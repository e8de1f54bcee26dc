// Performs a stream of requests, one a line on stdin, on PyTorch's own CUDACachingAllocator; says what it answered.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <unordered_map>
#include <vector>

extern "C" long oracle_now, oracle_delay;
extern "C" void oracle_begin_capture(long id, long stream), oracle_end_capture(long id);
namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*function)(c10::DeviceIndex));
}
namespace native = c10::cuda::CUDACachingAllocator;
using Bytes = unsigned long long;

// Addresses count from 0: those of cudaMalloc from 0x7f0000000000, mapped ones from 0x600000000000.
static long long relative(Bytes p) {
  if (!p) return 0;
  return p >= 0x7f0000000000ull ? p - 0x7f0000000000ull : p - 0x600000000000ull;
}

static void print_segments() {
  for (auto& segment : native::get()->snapshot().segments) {
    printf("seg %lld %zu stream %ld %s%s", relative((Bytes)segment.address), segment.total_size, (long)segment.stream,
           segment.is_large ? "L" : "S", segment.is_expandable ? "x" : "");
    if (auto pool = segment.owner_private_pool_id.second) printf(" pool %ld", (long)pool);
    printf(":");
    for (auto& b : segment.blocks)
      printf(" %s%zu/%zu", b.allocated ? "A" : b.active ? "P" : "f", b.size, b.requested_size);
    puts("");
  }
}

static void print_statistics() {
  auto s = native::get()->getDeviceStats(0);
  auto& a = s.allocated_bytes[0];
  auto& r = s.reserved_bytes[0];
  auto& c = s.active_bytes[0];
  auto& i = s.inactive_split_bytes[0];
  printf("stats alloc %ld peak %ld reserved %ld peak %ld active %ld peak %ld insplit %ld peak %ld requested_peak %ld "
         "nseg %ld nsegpeak %ld retries %ld ooms %ld ndevalloc %ld ndevfree %ld\n",
         (long)a.current, (long)a.peak, (long)r.current, (long)r.peak, (long)c.current, (long)c.peak, (long)i.current,
         (long)i.peak, (long)s.requested_bytes[0].peak, (long)s.segment[0].current, (long)s.segment[0].peak,
         (long)s.num_alloc_retries, (long)s.num_ooms, (long)s.num_device_alloc, (long)s.num_device_free);
}

struct Request {
  char kind;
  long id;
  Bytes bytes;
  long stream;
  double fraction;
};

// A program is in the captures that it has begun and not ended: its current stream is that of the latest.
static std::vector<std::pair<long, long>> capturing;  // pool and stream
static void set_current_stream() {
  long stream = capturing.empty() ? 0 : std::max(capturing.back().second, 0l);
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromExternal((cudaStream_t)stream, 0));
}

// The pool serves the requests of a stream, -1: of all. A capture is announced where the version wants to know of it.
template <class A>
static void begin(A* allocator, long pool, long stream, bool captures) {
  allocator->beginAllocateToPool(0, {0, pool}, [=](cudaStream_t s) { return stream < 0 || (long)s == stream; });
  if (!captures) return;
  oracle_begin_capture(pool, stream);
  capturing.emplace_back(pool, stream);
  set_current_stream();
  if constexpr (requires { allocator->markCaptureBegin(0); }) allocator->markCaptureBegin(0);
}

template <class A>
static void end(A* allocator, long pool) {
  auto found = std::find_if(capturing.begin(), capturing.end(), [=](auto& c) { return c.first == pool; });
  if (found != capturing.end()) {
    oracle_end_capture(pool);
    capturing.erase(found);
    set_current_stream();
    if constexpr (requires { allocator->markCaptureEnd(0); }) allocator->markCaptureEnd(0);
  }
  allocator->endAllocateToPool(0, {0, pool});
}

template <class A>
static void empty(A* allocator, long pool) {
  if constexpr (requires { allocator->emptyCache({0, pool}); }) allocator->emptyCache({0, pool});
}

static void perform(const Request& r, std::unordered_map<long, void*>& live, bool quiet) {
  auto found = live.find(r.id);
  switch (r.kind) {
    case 'a':
      try {
        void* p = native::get()->raw_alloc_with_stream(r.bytes, (cudaStream_t)r.stream);
        live[r.id] = p;
        if (!quiet) printf("a %ld %lld\n", r.id, relative((Bytes)p));
      } catch (const c10::OutOfMemoryError&) {
        if (!quiet) printf("oom %ld %llu\n", r.id, r.bytes);
      }
      break;
    case 'f':
      if (found == live.end()) break;
      native::get()->raw_delete(found->second);
      live.erase(found);
      break;
    case 'r': {
      if (found == live.end()) break;
      c10::DataPtr data(found->second, found->second, native::get()->raw_deleter(), c10::Device(c10::kCUDA, 0));
      native::get()->recordStream(data, c10::cuda::getStreamFromExternal((cudaStream_t)r.stream, 0));
      data.release_context();
      break;
    }
    case 'e': try { native::get()->emptyCache(); } catch (const c10::Error&) {} break;  // a capture, before 2.9
    case 'b':
    case 'c': begin(native::get(), r.id, r.stream, r.kind == 'c'); break;
    case 'n': end(native::get(), r.id); break;
    case 'x': native::get()->releasePool(0, {0, r.id}); break;
    case 'E': try { empty(native::get(), r.id); } catch (const c10::Error&) {} break;
    case 't': oracle_now += r.id; break;
    case 'd': oracle_delay = r.id; break;
    case 'F': native::get()->setMemoryFraction(r.fraction, 0); break;
    case 's': print_segments(); break;
    case 'p': print_statistics(); break;
  }
}

int main(int argc, char**) {
  bool quiet = argc > 1;  // only the time that it took
  std::vector<Request> requests;
  std::unordered_map<long, void*> live;
  for (std::string line; std::getline(std::cin, line);) {
    Request r{line[0], 0, 0, 0, 1.0};
    const char* rest = line.c_str() + 1;
    if (r.kind == 'a') sscanf(rest, "%ld %llu %ld", &r.id, &r.bytes, &r.stream);
    else if (strchr("rbc", r.kind)) sscanf(rest, "%ld %ld", &r.id, &r.stream);
    else if (r.kind == 'F') sscanf(rest, "%lf", &r.fraction);
    else sscanf(rest, "%ld", &r.id);
    requests.push_back(r);
  }
  try {
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
    native::init(1);
    auto start = std::chrono::steady_clock::now();
    for (auto& r : requests) perform(r, live, quiet);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fprintf(stderr, "seconds %.6f\n", took.count());
  } catch (const std::exception& e) {
    std::string text = e.what();
    fflush(stdout);
    fprintf(stderr, "refused %s\n", text.substr(0, text.find('\n')).c_str());
    _exit(9);
  }
  fflush(stdout);
  _exit(0);
}
