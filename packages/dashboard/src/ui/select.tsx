import type { SelectHTMLAttributes } from 'preact'

/** A choice with its text. */
interface Option<T extends string = string> {
  value: T
  label: string
  disabled?: boolean
}

export interface SelectProps<T extends string> extends Omit<
  SelectHTMLAttributes,
  'value' | 'onChange' | 'label' | 'icon'
> {
  value: T
  options: readonly Option<T>[]
  onChange: (value: T) => void
  /** The accessible name where no `Field` labels the select. */
  name?: string
}

/** A native select (role `combobox`): for few choices. */
export function Select<T extends string>({ value, options, onChange, name, class: extra, ...rest }: SelectProps<T>) {
  return (
    <select
      {...rest}
      aria-label={name}
      class={`select${typeof extra === 'string' ? ` ${extra}` : ''}`}
      value={value}
      onChange={(event) => {
        const chosen = event.currentTarget.value as T
        // The view decides what is chosen: the element goes back until it does.
        event.currentTarget.value = value
        onChange(chosen)
      }}
    >
      {options.map((each) => (
        <option key={each.value} value={each.value} disabled={each.disabled ?? false} selected={each.value === value}>
          {each.label}
        </option>
      ))}
    </select>
  )
}
