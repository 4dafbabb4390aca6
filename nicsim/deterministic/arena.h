// Arena: memory that can be saved and put back byte by byte, so that a whole world of objects, with the pointers
// between them, returns to an earlier state for the price of a copy.
//
// While a Scope lives, operator new of its thread takes from the arena (a program that links this library gets its own
// global operator new and delete for that, which are malloc and free otherwise). What was allocated in the arena may be
// deleted with or without a scope. Objects outside must not own memory inside, or they would keep it across a restore.
#ifndef LANYARD_NICSIM_DETERMINISTIC_ARENA_H_
#define LANYARD_NICSIM_DETERMINISTIC_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lanyard::nicsim {

// One thread at a time.
class Arena {
 public:
  // What an arena held at some time; only that arena can put it back.
  using Image = std::vector<std::byte>;

  // Reserves address space of which pages are used as they are touched.
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Never null: an arena that is full ends the process, as does address space that the system refuses.
  void* allocate(size_t bytes);
  void release(void* memory);

  // The image's own memory is not the arena's, whatever scope lives.
  void save(Image& image) const;
  void restore(const Image& image);

  // The calling thread's operator new allocates there. Nests.
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
  // It is malloc's again. Nests.
  struct Outside : Scope {
    Outside() : Scope(nullptr) {}
  };

 private:
  struct Header;
  Header* header_ = nullptr;  // at the arena's start: its books are saved with it
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_ARENA_H_
