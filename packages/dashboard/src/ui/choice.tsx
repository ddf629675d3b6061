import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

export interface CheckboxProps {
  label: ComponentChildren
  checked: boolean
  onChange: (checked: boolean) => void
  hint?: ComponentChildren
  disabled?: boolean
  /** On the first box of a group that is wrong: the id of the sentence that says so. */
  problemId?: string | undefined
}

/** A check box with its label. */
export function Checkbox({ label, checked, onChange, hint, disabled = false, problemId }: CheckboxProps) {
  const id = useId()
  const described = [hint === undefined ? '' : `${id}-hint`, problemId ?? '']
  return (
    <div class="choice">
      <input
        type="checkbox"
        id={id}
        checked={checked}
        disabled={disabled}
        aria-describedby={described.join(' ').trim() || undefined}
        aria-invalid={problemId === undefined ? undefined : 'true'}
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
            aria-describedby={each.hint === undefined ? undefined : `${name}-${each.value}-hint`}
            onChange={() => onChange(each.value)}
          />
          <div>
            <label for={`${name}-${each.value}`}>{each.label}</label>
            {each.hint === undefined ? null : (
              <p class="hint" id={`${name}-${each.value}-hint`}>
                {each.hint}
              </p>
            )}
          </div>
        </div>
      ))}
    </fieldset>
  )
}
