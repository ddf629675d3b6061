/** Makes a function that calls `make` when it is called first, and returns that value from then on. */
export function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => (made ??= { value: make() }).value
}
