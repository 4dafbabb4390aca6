// Arena: memory that can be saved and restored byte by byte. A whole world of objects, with the
// pointers between them, returns to an earlier state for the price of a copy.
//
// While a Scope lives, operator new of its thread allocates from the arena. For this, the library
// replaces the program's global operator new and delete; without a scope they are malloc and free.
// Arena memory may be deleted with or without a scope. Objects outside must not own memory inside:
// they would keep it across a restore.
#ifndef LANYARD_NICSIM_DETERMINISTIC_ARENA_H_
#define LANYARD_NICSIM_DETERMINISTIC_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lanyard::nicsim {

// Used by one thread at a time.
class Arena {
 public:
  // The contents of an arena at some time. Only that arena can restore it.
  using Image = std::vector<std::byte>;

  // Reserves address space; touched pages take memory. A refusal fails a LANYARD_CHECK.
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Never returns null: a full arena fails a LANYARD_CHECK.
  void* allocate(size_t bytes);
  void release(void* memory);

  // The image's own memory comes from malloc, whatever scope lives.
  void save(Image& image) const;
  void restore(const Image& image);

  // While it lives, operator new of its thread allocates from the arena. Nests.
  class Scope {
   public:
    explicit Scope(Arena& arena) : Scope(&arena) {}
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   protected:
    explicit Scope(Arena* arena);

   private:
    Arena* const previous_;
  };
  // While it lives, operator new of its thread is malloc again. Nests.
  struct Outside : Scope {
    Outside() : Scope(nullptr) {}
  };

 private:
  struct Header;
  Header* header_ = nullptr;  // at the arena's start, so that save() includes it
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_ARENA_H_
