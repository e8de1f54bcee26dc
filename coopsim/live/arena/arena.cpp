// Memory for PyTorch out of one reservation of one size: each request of a planned step at its planned address,
// all others where there is room. It is PyTorch's allocator by way of torch.cuda.memory.CUDAPluggableAllocator.
//
// Blocks of several streams lie side by side. Whoever gets memory that another stream may still use waits for what that
// stream has been given to do until then; so nothing has to be held back, and a program of one stream waits for nothing.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

constexpr int64_t GRANULE = 512;
constexpr int DEVICES = 64, HOST = DEVICES;
constexpr int STREAMS = 63;  // that are told apart; bit 63 stands for all others

using Stream = void*;

int64_t round_up(int64_t n) { return (n + GRANULE - 1) / GRANULE * GRANULE; }

std::string human(int64_t n) {
  char text[32];
  if (n < (int64_t(1) << 30))
    snprintf(text, sizeof text, "%.2f MiB", n / 1048576.0);
  else
    snprintf(text, sizeof text, "%.2f GiB", n / 1073741824.0);
  return text;
}

// --- the CUDA runtime that PyTorch has loaded -----------------------------------------------------------------------

int find_runtime(dl_phdr_info* info, size_t, void* found) {
  if (!strstr(info->dlpi_name, "libcudart")) return 0;
  *static_cast<void**>(found) = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  return 1;
}

template <class... Given>
int cuda(const char* name, Given... given) {
  static std::map<std::string, void*> known;
  void*& function = known[name];
  if (!function) function = dlsym(RTLD_DEFAULT, name);
  if (!function) {
    void* runtime = nullptr;
    dl_iterate_phdr(find_runtime, &runtime);
    function = runtime ? dlsym(runtime, name) : nullptr;
  }
  TORCH_CHECK(function, "coopsim: the CUDA runtime has no ", name);
  return reinterpret_cast<int (*)(Given...)>(function)(given...);
}

// --- what a planned step asks for -----------------------------------------------------------------------------------

// Requests by entry of the op log: of entry r, those from start[r] to start[r + 1].
struct Plan {
  const volatile int64_t* at = nullptr;  // the entry that runs
  std::vector<int64_t> start, bytes, offset;
  int64_t height = 0;  // above that, nothing is planned
  int64_t row = -1, next = 0;

  // The place of a request; -1: it is none of the plan's.
  int64_t place(int64_t n) {
    if (!at || *at < 0 || *at + 1 >= static_cast<int64_t>(start.size())) return -1;
    if (*at != row) {
      row = *at;
      next = start[row];
    }
    for (int64_t i = next; i < start[row + 1]; i++)
      if (bytes[i] == n) {
        next = i + 1;
        return offset[i];
      }
    return -1;
  }
};

struct Free {
  int64_t bytes;
  uint64_t streams;  // that may still use it
};

struct Block {
  int64_t bytes, asked, born;
  uint64_t streams;
};

// All that coopsim's Python reads, and the last two, which it sets: where requests go that no plan has, from the low end,
// for what stays, or from the high end; and what becomes of those that find no room: PyTorch's error, memory outside, or
// an error that no op catches.
struct Stats {
  int64_t size, allocated, allocated_peak, reserved, reserved_peak, requested, requested_peak, requests, ooms, planned,
      placed, blocks, outside, base, wanted, taken, given_back, zone, when_full;
};
constexpr int64_t FIRST_FIT = 0, GROWS = 1, RAISES = 2;

class Arena {
 public:
  Stats stats{};
  Plan plan;

  Arena(int device, int64_t size) : device_(device) { resize(size); }

  void reserve(int64_t base) {
    base_ = stats.base = base;
    put(0, stats.size, 0);
    stats.reserved = stats.reserved_peak = stats.size;
  }
  void resize(int64_t size) { stats.size = size / GRANULE * GRANULE; }
  bool reserved() const { return base_ != 0; }

  void* take(int64_t asked, Stream stream) {
    const int64_t n = round_up(asked);
    int64_t at = plan.place(n);
    stats.planned += at >= 0;
    stats.placed += at >= 0 && is_free(at, n);
    if (at < 0 || !is_free(at, n)) at = anywhere(n);
    if (at >= 0)
      carve(at, n, stream);
    else if (stats.when_full != GROWS || !take_outside(n, &at))
      return nullptr;
    blocks_[at] = {n, asked, stats.requests++, bit(stream)};
    if (logging_ >= 0 && !is_outside(at)) log_.push_back({at, n});
    count(n, asked);
    return reinterpret_cast<void*>(base_ + at);
  }

  bool give(void* pointer) {
    auto found = blocks_.find(reinterpret_cast<int64_t>(pointer) - base_);
    if (found == blocks_.end()) return false;
    const auto [at, block] = *found;
    blocks_.erase(found);
    count(-block.bytes, -block.asked);
    if (is_outside(at)) {
      stats.given_back++;
      stats.outside -= block.bytes;
      stats.reserved -= block.bytes;
      if (device_ == HOST)
        std::free(pointer);
      else
        cuda("cudaFree", pointer);
    } else {
      if (logging_ >= 0 && block.born >= logging_) log_.push_back({at, 0});
      put(at, block.bytes, block.streams);
    }
    return true;
  }

  void use(void* pointer, Stream stream) {
    auto found = blocks_.find(reinterpret_cast<int64_t>(pointer) - base_);
    if (found != blocks_.end()) found->second.streams |= bit(stream);
  }

  int64_t largest() const {
    int64_t found = 0;
    for (const auto& gap : free_) found = std::max(found, gap.second.bytes);
    return found;
  }

  // Requests from here on are written down: (offset, bytes), and (offset, 0) where they are given back.
  void log() {
    log_.clear();
    logging_ = stats.requests;
  }
  int64_t logged(int64_t most, int64_t* out) {
    logging_ = -1;
    for (size_t i = 0; i < log_.size() && static_cast<int64_t>(i) < most; i++)
      std::tie(out[2 * i], out[2 * i + 1]) = log_[i];
    return static_cast<int64_t>(log_.size());
  }

  // Offset, bytes and number of the request of each block, from the lowest up, and how many there are.
  int64_t layout(int64_t most, int64_t* out) const {
    int64_t n = 0;
    for (auto block = blocks_.lower_bound(0); block != blocks_.lower_bound(stats.size); block++, n++)
      if (n < most) {
        out[3 * n] = block->first;
        out[3 * n + 1] = block->second.bytes;
        out[3 * n + 2] = block->second.born;
      }
    return n;
  }

 private:
  bool is_outside(int64_t at) const { return at < 0 || at >= stats.size; }

  // More than was reserved: for an op that cannot be run again.
  bool take_outside(int64_t n, int64_t* at) {
    void* found = nullptr;
    if (device_ == HOST)
      found = std::aligned_alloc(GRANULE, static_cast<size_t>(n));
    else if (cuda("cudaMalloc", &found, static_cast<size_t>(n)))
      return false;
    if (!found) return false;
    stats.taken++;
    stats.outside += n;
    stats.reserved += n;
    stats.reserved_peak = std::max(stats.reserved_peak, stats.reserved);
    *at = reinterpret_cast<int64_t>(found) - base_;
    return true;
  }

  bool is_free(int64_t at, int64_t n) const {
    auto next = free_.upper_bound(at);
    if (next == free_.begin()) return false;
    const auto gap = std::prev(next);
    return gap->first + gap->second.bytes >= at + n;
  }

  // What stays goes where it is lowest. Of the rest, what is not planned goes above the plan, or where it fits best.
  int64_t anywhere(int64_t n) const {
    int64_t found = -1, least = INT64_MAX;
    for (auto gap = free_.rbegin(); gap != free_.rend(); ++gap) {
      const int64_t low = gap->first, size = gap->second.bytes;
      if (size < n) continue;
      if (plan.at && low + size - n >= plan.height) return low + size - n;
      if (!plan.at && stats.zone == FIRST_FIT) {
        found = low;
      } else if (size <= least) {
        found = low + size - n;
        least = size;
      }
    }
    return found;
  }

  void carve(int64_t at, int64_t n, Stream stream) {
    const auto gap = std::prev(free_.upper_bound(at));
    const auto [low, there] = *gap;
    const int64_t high = low + there.bytes;
    free_.erase(gap);
    if (low < at) free_[low] = {at - low, there.streams};
    if (at + n < high) free_[at + n] = {high - at - n, there.streams};
    wait(there.streams & ~bit(stream), stream);
  }

  void count(int64_t n, int64_t asked) {
    stats.allocated += n;
    stats.requested += asked;
    stats.blocks += n > 0 ? 1 : -1;
    stats.allocated_peak = std::max(stats.allocated_peak, stats.allocated);
    stats.requested_peak = std::max(stats.requested_peak, stats.requested);
  }

  void put(int64_t at, int64_t n, uint64_t streams) {
    auto next = free_.lower_bound(at);
    if (next != free_.end() && next->first == at + n) {
      n += next->second.bytes;
      streams |= next->second.streams;
      next = free_.erase(next);
    }
    if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second.bytes == at) {
      Free& before = std::prev(next)->second;
      before = {before.bytes + n, before.streams | streams};
    } else {
      free_[at] = {n, streams};
    }
  }

  uint64_t bit(Stream stream) {
    if (device_ == HOST) return 1;
    auto found = std::find(streams_.begin(), streams_.end(), stream);
    if (found == streams_.end()) {
      if (streams_.size() == STREAMS) return uint64_t(1) << STREAMS;
      found = streams_.insert(streams_.end(), stream);
    }
    return uint64_t(1) << (found - streams_.begin());
  }

  // The stream does nothing more until what others have been given until now is done.
  void wait(uint64_t others, Stream stream) {
    if (!others) return;
    if (others >> STREAMS) {
      cuda("cudaDeviceSynchronize");
      return;
    }
    for (size_t i = 0; i < streams_.size(); i++) {
      if (!(others >> i & 1)) continue;
      if (!event_) TORCH_CHECK(!cuda("cudaEventCreateWithFlags", &event_, 2u), "coopsim: no CUDA event can be made");
      if (cuda("cudaEventRecord", event_, streams_[i]) || cuda("cudaStreamWaitEvent", stream, event_, 0u))
        cuda("cudaDeviceSynchronize");  // that stream is no more
    }
  }

  const int device_;
  int64_t base_ = 0, logging_ = -1;
  std::map<int64_t, Free> free_;    // by offset
  std::map<int64_t, Block> blocks_;  // by offset; some lie outside
  std::vector<Stream> streams_;
  std::vector<std::pair<int64_t, int64_t>> log_;
  void* event_ = nullptr;
};

std::mutex mutex;
int64_t size_of_each = 0;
std::unique_ptr<Arena> arenas[DEVICES + 1];

Arena& arena_of(int device) {
  if (!arenas[device]) arenas[device] = std::make_unique<Arena>(device, size_of_each);
  return *arenas[device];
}

// As PyTorch's own allocator does: to its profiler, and to the phantom GPU, on which new blocks read as zeros.
void report(void* pointer, int64_t bytes, const Stats& stats, int device) {
  if (device == HOST) return;
  const c10::Device here(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device));
  c10::reportMemoryUsageToProfiler(pointer, bytes, stats.allocated, stats.reserved, here);
}

void* take(int64_t bytes, int device, Stream stream) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!bytes) return nullptr;
  Arena& arena = arena_of(device);
  if (!arena.reserved()) {
    if (!size_of_each) {
      size_t left = 0, all = 0;
      cuda("cudaMemGetInfo", &left, &all);
      arena.resize(static_cast<int64_t>(left - left / 16));
    }
    void* base = nullptr;
    const int failed = cuda("cudaMalloc", &base, static_cast<size_t>(arena.stats.size));
    if (failed) cuda("cudaGetLastError");
    TORCH_CHECK_WITH(OutOfMemoryError, !failed, "CUDA out of memory. GPU ", device, " has no room for the budget of ",
                     human(arena.stats.size));
    arena.reserve(reinterpret_cast<int64_t>(base));
  }
  void* found = arena.take(bytes, stream);
  if (!found) {
    arena.stats.ooms++;
    arena.stats.wanted = round_up(bytes);
    const int64_t left = arena.stats.size - (arena.stats.allocated - arena.stats.outside);
    const std::string where = device == HOST ? "the CPU" : "GPU " + std::to_string(device);
    const std::string text = c10::str("CUDA out of memory. Tried to allocate ", human(bytes), ". Of the budget of ",
                                      human(arena.stats.size), " on ", where, ", ", human(left), " are free, at most ",
                                      human(arena.largest()), " of them side by side");
    TORCH_CHECK(arena.stats.when_full != RAISES, text);
    TORCH_CHECK_WITH(OutOfMemoryError, false, text);
  }
  report(found, bytes, arena.stats, device);
  return found;
}

void give(void* pointer, int64_t bytes, int device) {
  std::lock_guard<std::mutex> lock(mutex);
  Arena& arena = arena_of(device);
  TORCH_CHECK(!pointer || arena.give(pointer), "coopsim: memory is given back that was not taken");
  report(pointer, -bytes, arena.stats, device);
}

// Numbers, and states of random numbers, are the host's where there is a GPU: they stay with PyTorch's own allocator.
constexpr size_t SMALL = 8192;

void give_host(void* pointer);

struct HostArena final : c10::Allocator {
  c10::Allocator* const small = c10::GetAllocator(c10::DeviceType::CPU);
  c10::DataPtr allocate(size_t n) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (n <= SMALL) return small->allocate(n);
    void* found = take(static_cast<int64_t>(n), HOST, nullptr);
    return {found, found, &give_host, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_host; }
  void copy_data(void* to, const void* from, size_t n) const override { default_copy_data(to, from, n); }
};

HostArena& host() {
  static HostArena arena;
  return arena;
}

// Where memory is asked for without a tensor, PyTorch gives all of it back here.
void give_host(void* pointer) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (arenas[HOST]->give(pointer)) return;
  }
  host().small->raw_deallocate(pointer);
}

}  // namespace

extern "C" {

void* coopsim_arena_malloc(ssize_t bytes, int device, Stream stream) { return take(bytes, device, stream); }
void coopsim_arena_free(void* pointer, ssize_t bytes, int device, Stream) { give(pointer, bytes, device); }
void coopsim_arena_record_stream(void* pointer, Stream stream) {
  std::lock_guard<std::mutex> lock(mutex);
  for (int device = 0; device < DEVICES; device++)
    if (arenas[device]) arenas[device]->use(pointer, stream);
}

// Of all devices; before the first request. 0: nearly all that is free there.
void coopsim_arena_size(int64_t bytes) { size_of_each = bytes; }

// An arena of the host's memory at `base`, for what wants none of CUDA.
void coopsim_arena_host(int64_t base, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  arenas[HOST] = std::make_unique<Arena>(HOST, bytes);
  arenas[HOST]->reserve(base);
}

// PyTorch's tensors on the CPU lie in that arena from now on.
void coopsim_arena_serve_cpu() { c10::SetAllocator(c10::DeviceType::CPU, &host(), 255); }

const Stats* coopsim_arena_stats(int device) {
  std::lock_guard<std::mutex> lock(mutex);
  return &arena_of(device).stats;
}
void coopsim_arena_reset_peaks(int device) {
  std::lock_guard<std::mutex> lock(mutex);
  Stats& stats = arena_of(device).stats;
  stats.allocated_peak = stats.allocated;
  stats.requested_peak = stats.requested;
  stats.reserved_peak = stats.reserved;
}

void coopsim_arena_log(int device) {
  std::lock_guard<std::mutex> lock(mutex);
  arena_of(device).log();
}
int64_t coopsim_arena_logged(int device, int64_t most, int64_t* out) {
  std::lock_guard<std::mutex> lock(mutex);
  return arena_of(device).logged(most, out);
}

int64_t coopsim_arena_layout(int device, int64_t most, int64_t* out) {
  std::lock_guard<std::mutex> lock(mutex);
  return arena_of(device).layout(most, out);
}

// From now on requests go where this plan has them; `at` is the entry of its tape that runs. No `at`: by no plan.
void coopsim_arena_follow(int device, const int64_t* at, int64_t rows, const int64_t* start, const int64_t* bytes,
                          const int64_t* offset) {
  std::lock_guard<std::mutex> lock(mutex);
  Plan& plan = arena_of(device).plan;
  plan = Plan();
  if (!at) return;
  plan.at = at;
  plan.start.assign(start, start + rows + 1);
  plan.bytes.assign(bytes, bytes + start[rows]);
  plan.offset.assign(offset, offset + start[rows]);
  for (int64_t i = 0; i < start[rows]; i++)
    if (offset[i] >= 0) plan.height = std::max(plan.height, offset[i] + bytes[i]);
}
}
