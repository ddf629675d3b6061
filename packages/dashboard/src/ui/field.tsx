import type { ComponentChildren, InputHTMLAttributes } from 'preact'
import { useId } from 'preact/hooks'
import { messages } from '../messages/en.ts'
import { Select, type SelectProps } from './select.tsx'

/** Attributes that connect a control with its label, hint and error. */
export interface ControlAttributes {
  id: string
  'aria-describedby': string | undefined
  'aria-invalid': 'true' | undefined
}

export interface FieldProps {
  label: string
  hint?: ComponentChildren
  /** A sentence that says what is wrong. */
  error?: string | undefined
  isOptional?: boolean
  /** Renders the control with the attributes that connect it. */
  children: (attributes: ControlAttributes) => ComponentChildren
}

/** A label, a control, a hint and an error, connected for screen readers. */
export function Field({ label, hint, error, isOptional = false, children }: FieldProps) {
  const id = useId()
  const described = [hint === undefined ? '' : `${id}-hint`, error === undefined ? '' : `${id}-error`]
  return (
    <div class="field">
      <label for={id}>
        {label}
        {isOptional ? <span class="muted"> ({messages.ui.optional})</span> : null}
      </label>
      {children({
        id,
        'aria-describedby': described.join(' ').trim() || undefined,
        'aria-invalid': error === undefined ? undefined : 'true',
      })}
      {hint === undefined ? null : (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      <Problem id={`${id}-error`} text={error} />
    </div>
  )
}

/** A sentence that says what is wrong in a form; nothing without one. */
export const Problem = ({ text, id }: { text: string | undefined; id?: string }) =>
  text === undefined ? null : (
    <p class="field-error" id={id} role="alert">
      {text}
    </p>
  )

export interface TextFieldProps
  extends
    Omit<FieldProps, 'children'>,
    Pick<
      InputHTMLAttributes,
      | 'placeholder'
      | 'autocomplete'
      | 'inputMode'
      | 'min'
      | 'max'
      | 'maxLength'
      | 'required'
      | 'spellcheck'
      | 'autofocus'
      | 'name'
    > {
  value: string
  onInput: (value: string) => void
  type?: 'text' | 'password' | 'number' | 'url' | 'email' | 'date' | 'datetime-local' | 'search'
  /** Lines of a text area; absent: the field is an input of one line. */
  lines?: number
}

/** A field for text. */
export function TextField({
  label,
  hint,
  error,
  isOptional,
  value,
  onInput,
  type = 'text',
  lines,
  ...rest
}: TextFieldProps) {
  return (
    <Field label={label} hint={hint} error={error} isOptional={isOptional ?? false}>
      {(attributes) =>
        lines === undefined ? (
          <input
            {...rest}
            {...attributes}
            class="input"
            type={type}
            value={value}
            onInput={(event) => onInput(event.currentTarget.value)}
          />
        ) : (
          <textarea
            {...attributes}
            class="input"
            rows={lines}
            placeholder={typeof rest.placeholder === 'string' ? rest.placeholder : undefined}
            value={value}
            onInput={(event) => onInput(event.currentTarget.value)}
          />
        )
      }
    </Field>
  )
}

type SelectFieldProps<T extends string> = Pick<FieldProps, 'label' | 'hint' | 'error'> & Omit<SelectProps<T>, 'name'>

/** A field for one of few choices. */
export const SelectField = <T extends string>({ label, hint, error, ...select }: SelectFieldProps<T>) => (
  <Field label={label} hint={hint} error={error}>
    {(attributes) => <Select {...select} {...attributes} />}
  </Field>
)
