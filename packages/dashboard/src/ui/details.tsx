import type { ComponentChildren } from 'preact'

type Item = readonly [name: string, value: ComponentChildren]

/** The details of a record: names and values. `false` stands for what the record does not have. */
export function Details({ items }: { items: readonly (Item | false)[] }) {
  return (
    <dl class="details">
      {items
        .filter((item) => item !== false)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  )
}
