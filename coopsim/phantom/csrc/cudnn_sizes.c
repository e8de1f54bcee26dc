/* What cuDNN asks for beside its arguments: rules read off measurements of an H100 with cuDNN 9.19.
 *
 * Its matrix kernels want channels last, so a convolution of the usual layout first copies what it reads and writes,
 * with channels padded to 16 bytes. A gradient of the weights sums over batch and space, in parts that run at once:
 * 1 x 1 filters take a part per image, others split the sum until all multiprocessors have a tile of the result.
 * docs/phantom-gpu.md says how well this agrees with experiments/gpu/results, and the tests hold it to that. */
#include "cudnn_sizes.h"

enum { ALIGNMENT = 400, MIB = 1 << 20 };  /* what is added for the alignment of the copies: 16 to 900 bytes */

typedef struct { int64_t x, w, y; } Copies;

static int64_t divided(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

static Copies copies(const Convolution *c, int padded) {
  int64_t lane = padded ? 16 / c->bytes : 1;
#define UP(n) (divided(n, lane) * lane)
  return (Copies){c->batch * UP(c->channels) * c->points * c->bytes,
                  UP(c->filters) * UP(c->channels / c->groups) * c->taps * c->bytes,
                  c->batch * UP(c->filters) * c->results * c->bytes};
#undef UP
}

/* The tiles of a split sum: of 128 x 128 floats, 64 or 8 where there are no more channels. */
static int64_t partial_sums(const Convolution *c, int64_t multiprocessors) {
  int64_t channels = c->channels / c->groups, positions = c->batch * c->results;
  int64_t width = channels <= 64 ? 64 : 128, height = c->filters <= 8 ? 8 : c->filters <= 64 ? 64 : 128;
  int64_t tiles = divided(channels, width) * divided(c->filters, height) * c->taps, splits;
  if (c->bytes == 4) {
    splits = lesser(tiles > multiprocessors + 12 ? 0 : greater(1, multiprocessors / tiles), positions / 1750);
  } else {
    splits = lesser(lesser(2 * multiprocessors / tiles, 13), positions / (width + height <= 128 ? 1750 : 6272));
    if (splits == 1) splits = 0;
  }
  return tiles * splits * width * height * 4;
}

static int is_depthwise(const Convolution *c) { return c->groups > 1 && c->groups == c->channels; }

static int64_t by_channels_last(const Convolution *c, int64_t multiprocessors) {
  Copies of = copies(c, 1);
  if (c->kind == FORWARD) {  /* none but for one result per image, and for first layers */
    int half = c->bytes == 2;
    if (c->results == 1) return c->taps == 1 || (half && c->batch <= 8) ? 0 : of.x + of.w + ALIGNMENT;
    if (c->channels >= 4 || (half && c->strided && c->channels * c->taps <= 48)) return 0;
    if (!half && c->taps <= 49) of = copies(c, 0);
    return of.x + of.w + ALIGNMENT;
  }
  if (c->kind != WEIGHT_GRADIENT || c->results == 1) return 0;
  if (is_depthwise(c)) {  /* parts of the sum, of 32 channels at a time; 7 x 7 filters in float32 are copied instead */
    if (c->batch * c->results < 1024) return 0;
    if (c->bytes == 2) return 8 * c->batch * divided(c->channels, 32) * 32 * c->taps * 4;
    return c->taps == 49 ? of.x + of.y + ALIGNMENT : 0;
  }
  if (c->groups > 1) return c->bytes == 4 ? of.x + of.y + ALIGNMENT : 0;
  if (c->channels < 4) {
    if (c->bytes == 2) return of.x + 2 * MIB;
    return c->taps == 49 ? of.x + of.y + 121 * of.w + ALIGNMENT : 0;
  }
  if (c->taps > 1 || c->strided) return partial_sums(c, multiprocessors);
  int64_t tiles = divided(c->channels, 128) * divided(c->filters, 128), positions = c->batch * c->results;
  int64_t splits = c->bytes == 4 ? lesser(lesser(2 * multiprocessors / tiles, 66), positions / 95)
                                 : lesser(lesser(multiprocessors / tiles, 16), positions / 1500);
  return splits * c->channels * c->filters * 4;
}

/* First layers, of one to three channels, mostly have kernels of their own. */
static int64_t of_first_layer(const Convolution *c) {
  Copies of = copies(c, 1);
  if (c->kind == WEIGHT_GRADIENT) {
    if (c->bytes == 4 && c->taps <= 16) return 0;
    return of.x + of.w + of.y + ALIGNMENT + (c->bytes == 4 && c->taps == 49 ? 120 * of.w : 0);
  }
  if (c->bytes == 2) return c->channels * c->taps <= 48 ? 0 : of.x + of.w + of.y + ALIGNMENT;
  if (c->taps != 49) return 0;
  of = copies(c, 0);
  return of.x + of.w + of.y + 16;
}

static int64_t of_one_by_one(const Convolution *c, int64_t multiprocessors) {
  if (c->points == 1) return 0;
  Copies of = copies(c, 1);
  int64_t copied = of.x + of.y + ALIGNMENT, weights = c->channels * c->filters;
  if (c->kind == WEIGHT_GRADIENT) {
    int64_t part_per_image = c->batch * weights * 4;
    if (!c->strided && c->bytes == 2) return lesser(part_per_image, copied);
    /* Up to 181 MB were measured; a MobileNet at batch 96 took none of its 202 to 539 MB (inferred from its peak). */
    int narrow = (c->channels <= 32 || c->filters <= 8) && c->points >= 3136 && copied <= 192 * MIB;
    if (c->strided || narrow || part_per_image >= (c->points <= 64 ? 32ll : 80ll) * MIB)
      return copied + partial_sums(c, multiprocessors);
    return part_per_image;
  }
  if (c->strided) return copied;
  if (c->bytes == 2) return c->points <= 49 ? copied : ALIGNMENT;
  int forward = c->kind == FORWARD, small = c->points <= 64;
  int copies_help = c->points % 4 ? small || forward : small && (forward ? c->filters <= 384 : c->filters >= 256);
  int large = weights >= 1 << 20 || (weights >= 110000 && c->batch * c->points * weights >= 700000000);
  return copies_help && large ? copied : c->points % 4 ? 0 : ALIGNMENT;
}

int64_t convolution_workspace(const Convolution *c, int64_t multiprocessors) {
  if (c->bytes != 2 && c->bytes != 4) return 0;
  if (c->channels_last) return by_channels_last(c, multiprocessors);
  if (is_depthwise(c)) return 0;
  if (c->groups == 1 && c->channels < 4) return of_first_layer(c);
  if (c->taps == 1) return of_one_by_one(c, multiprocessors);
  Copies of = copies(c, 1);
  if (c->kind == WEIGHT_GRADIENT) {
    int64_t parts = c->groups == 1 ? partial_sums(c, multiprocessors) : 0;
    return of.x + of.y + (c->results > 1 ? of.w : 0) + parts + ALIGNMENT;
  }
  if (c->kind == FORWARD && c->bytes == 4) {
    int few = c->filters == 64 && c->batch * c->results <= 131072;
    int writes_planes = c->channels == 64 && (c->filters == 128 || few) && c->spatial == 2 && !c->strided;
    if (c->channels == 4 || writes_planes) return of.x + of.w + ALIGNMENT;
    if (c->channels % 4 || c->filters % 4) of = copies(c, 0);
  }
  return of.x + of.w + of.y + ALIGNMENT;
}

/* One direction's outputs of one layer, over all steps: the unit of what a recurrent layer keeps and uses. */
static int64_t outputs(const Recurrence *r) { return r->batch * r->steps * r->hidden * r->bytes; }

/* Narrow layers in float32 need more, unless sequences are packed. For a plain RNN it is that of the grid's layers of
 * width 256; each gate more takes 2.5 units, which an LSTM of width 128 and a GRU of 64 agree on. */
static int is_narrow(const Recurrence *r) {
  return r->bytes == 4 && !r->packed && r->hidden < (r->gates == 1 ? 512 : 256);
}

int64_t rnn_workspace(const Recurrence *r) {
  int64_t unit = outputs(r), both = unit * r->directions, x = r->batch * r->steps * r->input * r->bytes;
  int64_t by_gates = x + (r->gates + 1) * both + (r->directions - 1) * 2 * both;
  int one = r->layers == 1, narrow = is_narrow(r);
  int64_t half_units = narrow ? 5 * (r->gates - 1) + 2 * (r->directions == 1 ? (one ? 13 : 14) : (one ? 19 : 21))
                              : 2 * (r->directions == 1 ? (one ? 4 : 3) : (one ? 10 : 12));
  int64_t by_input = 2 * x + greater(0, x - unit) * r->directions * r->directions + half_units * unit / 2;
  int64_t states = r->batch * r->hidden * r->bytes * r->layers * r->directions;
  int64_t all = greater(by_gates, by_input) + states * (r->gates == 4 ? 12 : r->gates == 3 ? 8 : 6);
  return all + 8ll * MIB * r->directions * r->layers + r->weights;
}

int64_t rnn_reserve(const Recurrence *r) {
  int64_t kept = r->gates == 4 ? 5 : r->gates == 3 ? 6 : 1;
  return outputs(r) * r->directions * (kept * r->layers + r->layers - 1);
}
