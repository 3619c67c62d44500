"""Mutation of valid files: whatever comes in, the readers answer with the truth or with a sentence."""
