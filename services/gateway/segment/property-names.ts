/**
 * Names of properties, whose objects are flattened later. A name is taken if a property has it. It is also taken if it
 * may equal a member of a property, or if a property may equal a member of it.
 *
 * The names are sorted by their UTF-16 units, so that the members of an object are neighbours: a sender may choose tens
 * of thousands of names, and hundreds of others that are compared with them.
 */
export class PropertyNames {
  private readonly sorted: string[]

  constructor(names: Iterable<string>) {
    this.sorted = [...names].sort()
  }

  isTaken(name: string): boolean {
    const members = `${name}.`
    if (this.has(name) || this.sorted[this.placeOf(members)]?.startsWith(members)) return true
    for (let dot = name.indexOf('.'); dot >= 0; dot = name.indexOf('.', dot + 1)) {
      if (this.has(name.slice(0, dot))) return true
    }
    return false
  }

  add(name: string): void {
    this.sorted.splice(this.placeOf(name), 0, name)
  }

  private has(name: string): boolean {
    return this.sorted[this.placeOf(name)] === name
  }

  /** The place of the first name that is not before this one. */
  private placeOf(name: string): number {
    let from = 0
    let to = this.sorted.length
    while (from < to) {
      const middle = (from + to) >>> 1
      if ((this.sorted[middle] ?? '') < name) from = middle + 1
      else to = middle
    }
    return from
  }
}
