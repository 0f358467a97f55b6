"""What our records are as rows of the other services' tables: the way back."""
