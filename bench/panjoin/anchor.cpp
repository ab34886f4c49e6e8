// The anchor: a band join tuple at a time, each stream's window in a B+-tree that is updated for every tuple.
// Usage: anchor WINDOW REACH TUPLES SEED; prints tuples a second, matches, rows a second while filling, a digest.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

constexpr int FAN = 64;  // eight cache lines of words, as in the trees it stands for

struct Node {
    int size = 0;
    bool leaf = true;
    uint64_t words[FAN];      // leaf: (key, sequence) as one word; inner: greatest word below each child but the last
    Node *children[FAN];
    Node *next = nullptr;
};

int first_not_below(const Node *node, int size, uint64_t word) {
    int at = 0;
    while (size > 0) {
        int half = (size + 1) / 2;
        at += (node->words[at + half - 1] < word) ? half : 0;
        size -= half;
    }
    return at;
}

class Tree {
  public:
    Tree() : root_(new Node) {}

    void insert(uint64_t word) {
        uint64_t middle;
        Node *right = insert_under(root_, word, &middle);
        if (right == nullptr) return;
        Node *top = new Node;
        top->leaf = false;
        top->size = 2;
        top->children[0] = root_;
        top->children[1] = right;
        top->words[0] = middle;
        root_ = top;
    }

    void erase(uint64_t word) {
        Node *leaf = leaf_of(word);
        int at = first_not_below(leaf, leaf->size, word);
        if (at == leaf->size || leaf->words[at] != word) std::abort();
        std::memmove(leaf->words + at, leaf->words + at + 1, sizeof(uint64_t) * (leaf->size - at - 1));
        leaf->size--;  // leaves are not joined: the window is full, so new rows fill them again
    }

    template <typename Use> void within(uint64_t low, uint64_t high, Use use) const {
        const Node *leaf = leaf_of(low);
        int at = first_not_below(leaf, leaf->size, low);
        for (; leaf != nullptr; leaf = leaf->next, at = 0)
            for (; at < leaf->size; at++) {
                if (leaf->words[at] > high) return;
                use(leaf->words[at]);
            }
    }

  private:
    Node *leaf_of(uint64_t word) const {
        Node *node = root_;
        while (!node->leaf) node = node->children[first_not_below(node, node->size - 1, word)];
        return node;
    }

    Node *insert_under(Node *node, uint64_t word, uint64_t *middle) {
        int at = first_not_below(node, node->leaf ? node->size : node->size - 1, word);
        Node *child = nullptr;
        uint64_t between = 0;
        if (!node->leaf) {
            child = insert_under(node->children[at], word, &between);
            if (child == nullptr) return nullptr;
        }
        Node *right = nullptr;
        if (node->size == FAN) {
            right = split(node, middle);
            int half = node->size;
            if (at > half || (node->leaf && at == half && word > *middle) || (!node->leaf && at >= half)) {
                put(right, at - half, word, between, child);
                return right;
            }
        }
        put(node, at, word, between, child);
        return right;
    }

    static Node *split(Node *node, uint64_t *middle) {
        Node *right = new Node;
        int half = node->size / 2;
        right->leaf = node->leaf;
        right->size = node->size - half;
        std::memcpy(right->words, node->words + half, sizeof(uint64_t) * right->size);
        if (!node->leaf) std::memcpy(right->children, node->children + half, sizeof(Node *) * right->size);
        node->size = half;
        *middle = node->words[half - 1];
        if (node->leaf) {
            right->next = node->next;
            node->next = right;
        }
        return right;
    }

    static void put(Node *node, int at, uint64_t word, uint64_t between, Node *child) {
        if (node->leaf) {
            std::memmove(node->words + at + 1, node->words + at, sizeof(uint64_t) * (node->size - at));
            node->words[at] = word;
        } else {
            std::memmove(node->words + at + 1, node->words + at, sizeof(uint64_t) * (node->size - at - 1));
            std::memmove(node->children + at + 2, node->children + at + 1, sizeof(Node *) * (node->size - at - 1));
            node->words[at] = between;
            node->children[at + 1] = child;
        }
        node->size++;
    }

    Node *root_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int count, char **arguments) {
    if (count != 5) return 2;
    const long window = std::atol(arguments[1]), reach = std::atol(arguments[2]), tuples = std::atol(arguments[3]);
    std::mt19937_64 random(std::atol(arguments[4]));
    Tree trees[2];
    std::vector<uint32_t> keys[2];
    for (auto &side : keys) side.resize(window);
    auto filling = std::chrono::steady_clock::now();
    for (long at = 0; at < window; at++)
        for (int side = 0; side < 2; side++) {
            keys[side][at] = random() >> 33;
            trees[side].insert(uint64_t(keys[side][at]) << 32 | uint32_t(at));
        }
    const double inserting = seconds_since(filling);
    long matches = 0;
    uint64_t digest = 0;
    auto start = std::chrono::steady_clock::now();
    for (long at = window; at < window + tuples; at++)
        for (int side = 0; side < 2; side++) {
            const uint32_t key = random() >> 33;
            const uint64_t low = key > reach ? key - reach : 0, high = uint64_t(key) + reach;
            trees[1 - side].within(low << 32, high << 32 | 0xffffffffu, [&](uint64_t word) {
                matches++;
                digest += word;
            });
            uint32_t &oldest = keys[side][at % window];
            trees[side].erase(uint64_t(oldest) << 32 | uint32_t(at - window));
            trees[side].insert(uint64_t(key) << 32 | uint32_t(at));
            oldest = key;
        }
    const double seconds = seconds_since(start);
    std::printf("%.1f %ld %.1f %llu\n", 2 * tuples / seconds, matches, 2 * window / inserting, (unsigned long long)digest);
    return 0;
}
