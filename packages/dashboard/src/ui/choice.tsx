import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

export interface CheckboxProps {
  label: ComponentChildren
  checked: boolean
  onChange: (checked: boolean) => void
  hint?: ComponentChildren
  disabled?: boolean
}

/** A check box with its label. */
export function Checkbox({ label, checked, onChange, hint, disabled = false }: CheckboxProps) {
  const id = useId()
  return (
    <div class="choice">
      <input
        type="checkbox"
        id={id}
        checked={checked}
        disabled={disabled}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <div>
        <label for={id}>{label}</label>
        {hint === undefined ? null : (
          <p class="hint" id={`${id}-hint`}>
            {hint}
          </p>
        )}
      </div>
    </div>
  )
}

export interface RadioGroupProps<T extends string> {
  legend: string
  value: T
  options: readonly { value: T; label: ComponentChildren; hint?: ComponentChildren; disabled?: boolean }[]
  onChange: (value: T) => void
  /** Side by side instead of one below the other. */
  isInline?: boolean
}

/** Choices of which one is taken. */
export function RadioGroup<T extends string>({
  legend,
  value,
  options,
  onChange,
  isInline = false,
}: RadioGroupProps<T>) {
  const name = useId()
  return (
    <fieldset class={`radios${isInline ? ' inline' : ''}`}>
      <legend class="legend">{legend}</legend>
      {options.map((each) => (
        <div class="choice" key={each.value}>
          <input
            type="radio"
            name={name}
            id={`${name}-${each.value}`}
            checked={each.value === value}
            disabled={each.disabled ?? false}
            onChange={() => onChange(each.value)}
          />
          <div>
            <label for={`${name}-${each.value}`}>{each.label}</label>
            {each.hint === undefined ? null : <p class="hint">{each.hint}</p>}
          </div>
        </div>
      ))}
    </fieldset>
  )
}
