import { type IconName, icons } from '../icons.ts'

export type { IconName }

/** A line icon of 16 px, hidden from screen readers: the text next to it, or the button's label, says what it means. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      {icons[name].map(([tag, attributes], at) => {
        const Tag = tag as 'path'
        return <Tag key={at} {...attributes} />
      })}
    </svg>
  )
}
